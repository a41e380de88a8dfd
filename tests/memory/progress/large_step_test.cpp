// A step whose PLAN and ASSIGNs fill several frames, over real sockets.

#include "core/error.h"
#include "memory/wire/parts.h"
#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

class LargeStep : public testing::Test {
 protected:
  JobDirectory directory;
  PoolController controller{{.directory = directory.path(),
                             .page_bytes = kPoolPage,
                             .reserve_pages = kLargest,
                             .timers = short_timers()}};
};

std::vector<std::byte> few_bytes_of(const Key& key) {
  return std::vector<std::byte>(1 + key.sample % 7, std::byte(key.sample % 251));
}

TEST_F(LargeStep, ComesToItsReaderWhole) {
  constexpr std::uint64_t kObjects = 5'000;
  PoolReader reader({.directory = directory.path(), .patience = kLong});
  PoolProducerOptions options = producer_options(directory.path());
  options.capacity_bytes = (kObjects / 2 + 2 * kLargest) * kPoolPage;
  PoolProducer one(options), other(options);
  const auto encode = [](PoolProducer& producer) {
    while (producer.end() == PoolProducer::End::kNone)
      if (const auto task = producer.next(milliseconds(20)))
        producer.finish(*task, few_bytes_of(task->key), {});
  };
  const std::jthread first([&] { encode(one); });
  const std::jthread second([&] { encode(other); });
  EXPECT_TRUE(until([&] { return reader.counts().producers == 2; }));

  StepPlanned step{.plan = {.step = 0, .microbatches = {{}}}};
  std::vector<Key>& keys = step.plan.microbatches.front().keys;
  for (std::uint64_t sample = 0; sample < kObjects; ++sample) {
    keys.push_back({.sample = sample});
    step.objects.push_back({.key = keys.back(), .pages = 1});
  }
  EXPECT_GT(frames_of(step.plan).size(), 1);
  controller.plan(step);
  std::uint64_t right = 0;
  for (const Key& key : keys)
    if (const auto object = reader.take(key, kLong))
      right += std::ranges::equal(object->bytes.span(), few_bytes_of(key)) ? 1 : 0;
  EXPECT_EQ(right, kObjects);
  EXPECT_EQ(one.counts().objects + other.counts().objects, kObjects);
  reader.finish_step(0);
  EXPECT_TRUE(until([&] { return controller.low() == 1; }));
  controller.finish();
}

TEST_F(LargeStep, IsRefusedWhereNoMessageHoldsIt) {
  StepPlanned step;
  step.objects.resize(kMaxMessageBytes / sizeof(AssignedObject) + 1);
  EXPECT_THROW(controller.plan(step), Error);
}

}  // namespace
}  // namespace tributary::memory
