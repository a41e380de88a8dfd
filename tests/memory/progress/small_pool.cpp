#include "tests/memory/progress/small_pool.h"

#include <cstring>
#include <unistd.h>

#include "core/text.h"

namespace tributary::memory {

std::vector<std::byte> bytes_of(const Key& key) {
  RandomStream draw(key.sample, "object");
  std::vector<std::byte> bytes(1 + draw.below(kLargest * kPoolPage));
  const std::uint64_t seed = draw.next();
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = mix_bits(seed + i);
    std::memcpy(&bytes[i], &word, std::min<std::size_t>(8, bytes.size() - i));
  }
  return bytes;
}

std::vector<Key> keys_of(std::uint64_t step, std::uint32_t readers, std::uint32_t reader) {
  std::vector<Key> keys;
  for (std::uint64_t i = 0; i < 4; ++i)
    keys.push_back({.sample = (step * readers + reader) * 4 + i, .dataset_epoch = 1, .part = 1});
  return keys;
}

StepPlanned planned_step(std::uint64_t step, std::uint32_t readers) {
  StepPlanned planned{.plan = {.step = step}};
  for (std::uint32_t reader = 0; reader < readers; ++reader) {
    const std::vector<Key> keys = keys_of(step, readers, reader);
    for (std::uint32_t order = 0; order < 2; ++order)
      planned.plan.microbatches.push_back(
          {.dp_rank = reader, .order = order, .keys = {keys[2 * order], keys[2 * order + 1]}});
    for (const Key& key : keys)
      planned.objects.push_back({.key = key,
                                 .pages = static_cast<std::uint32_t>(
                                     (bytes_of(key).size() + kPoolPage - 1) / kPoolPage)});
  }
  return planned;
}

JobDirectory::JobDirectory() {
  static int count = 0;
  path_ =
      (std::filesystem::temp_directory_path() / str("trib_pool_", getpid(), "_", count++)).string();
}

PoolProducerOptions producer_options(const std::string& directory) {
  return {
      .directory = directory, .capacity_bytes = 160 * kPoolPage, .encoders = 2, .patience = kLong};
}

Encoder::Encoder(const PoolProducerOptions& options, bool works_at_once)
    : works(works_at_once),
      device_(std::static_pointer_cast<HostDevice>(options.device)),
      producer_(std::make_unique<PoolProducer>(options)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

Encoder::~Encoder() {
  thread_.request_stop();
  thread_.join();
}

void Encoder::work(const std::stop_token& stop) {
  while (!stop.stop_requested() && producer_->end() == PoolProducer::End::kNone) {
    if (!works) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const auto task = producer_->next(milliseconds(5));
    if (!task) continue;
    if (task->key.sample == broken_sample) {
      producer_->fail(*task, "broken on purpose");
      continue;
    }
    const std::vector<std::byte> bytes = bytes_of(task->key);
    const ObjectDescription description{.tokens = static_cast<std::uint32_t>(task->key.sample)};
    if (device_)
      finish_on(*device_, *producer_, *task, bytes, description);
    else
      producer_->finish(*task, bytes, description);
  }
}

void finish_on(HostDevice& device, PoolProducer& producer, const PoolProducer::Task& task,
               std::span<const std::byte> bytes, const ObjectDescription& description) {
  std::byte* made = device.allocate(bytes.size()).value();
  device.write(bytes, made);
  producer.finish(task, bytes, description, made);
  device.free(made);
}

void encode_until_end(PoolProducer& producer) {
  while (producer.end() == PoolProducer::End::kNone)
    if (const auto task = producer.next(milliseconds(20)))
      producer.finish(*task, bytes_of(task->key), {});
}

}  // namespace tributary::memory
