#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/random.h"
#include "core/stopwatch.h"
#include "memory/progress/pool_controller.h"
#include "memory/progress/pool_producer.h"
#include "memory/progress/pool_reader.h"
#include "tests/memory/transport/host_device.h"

namespace tributary::memory {

// A pool of a few threads of one process: what is planned, what its encoders make, what readers
// get.

inline constexpr std::uint64_t kPoolPage = 4096, kLargest = 8;  // B; pages of the largest object
inline constexpr Nanoseconds kLong{20'000'000'000};

[[nodiscard]] inline Nanoseconds milliseconds(std::int64_t count) { return {count * 1'000'000}; }

/// Short ones, but for a fence that a busy machine must not bring about.
[[nodiscard]] inline Timers short_timers(Nanoseconds fence = milliseconds(5'000)) {
  return {.heartbeat = milliseconds(50),
          .fence = fence,
          .lost = milliseconds(10'000),
          .resend = milliseconds(50),
          .collect_failures = milliseconds(20)};
}

/// False when it does not become so within twenty seconds.
template <class Condition>
[[nodiscard]] bool until(const Condition& condition) {
  const Stopwatch waited;
  while (waited.seconds() < 20) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

/// The bytes of a sample's object, of random size.
[[nodiscard]] std::vector<std::byte> bytes_of(const Key& key);
/// Four objects for each reader.
[[nodiscard]] StepPlanned planned_step(std::uint64_t step, std::uint32_t readers);
/// The objects of one reader in a step.
[[nodiscard]] std::vector<Key> keys_of(std::uint64_t step, std::uint32_t readers,
                                       std::uint32_t reader);

/// A directory for a job, removed at the end.
class JobDirectory {
 public:
  JobDirectory();
  ~JobDirectory() { std::filesystem::remove_all(path_); }
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

[[nodiscard]] PoolProducerOptions producer_options(const std::string& directory);

/// A producer with a thread that encodes until its end.
class Encoder {
 public:
  explicit Encoder(const PoolProducerOptions& options, bool works_at_once = true);
  ~Encoder();

  [[nodiscard]] PoolProducer& producer() { return *producer_; }
  /// Whether it makes objects now; tasks wait meanwhile.
  std::atomic<bool> works;
  /// Samples that it cannot encode.
  std::atomic<std::uint64_t> broken_sample = ~std::uint64_t{0};

 private:
  void work(const std::stop_token& stop);

  std::shared_ptr<HostDevice> device_;  // null: it makes objects on the host
  std::unique_ptr<PoolProducer> producer_;
  std::jthread thread_;
};

/// Ends a task with bytes that lie on a device too.
void finish_on(HostDevice& device, PoolProducer& producer, const PoolProducer::Task& task,
               std::span<const std::byte> bytes, const ObjectDescription& description);

/// Makes what a producer is asked to until the job ends.
void encode_until_end(PoolProducer& producer);

/// A controller and its readers, each with the steps that it goes through.
struct Pool {
  /// There is room for `consumers` readers, of which `count` are there.
  explicit Pool(std::uint32_t count = 1, std::uint32_t consumers = 1)
      : controller(std::make_unique<PoolController>(
            PoolControllerOptions{.directory = directory.path(),
                                  .consumers = std::max(consumers, count),
                                  .page_bytes = kPoolPage,
                                  .reserve_pages = kLargest,
                                  .timers = short_timers()})) {
    for (std::uint32_t i = 0; i < count; ++i) add_reader({.consumer = i});
  }
  void add_reader(PoolReaderOptions options) {
    options.directory = directory.path();
    options.patience = kLong;
    readers.push_back(std::make_unique<PoolReader>(options));
  }
  [[nodiscard]] bool know_producers(std::uint64_t count) {
    return until([&] {
      return std::ranges::all_of(
          readers, [&](const auto& reader) { return reader->counts().producers == count; });
    });
  }
  void plan_until(std::uint64_t step) {
    const auto count = static_cast<std::uint32_t>(readers.size());
    for (; planned < step; ++planned) controller->plan(planned_step(planned, count));
  }
  /// Takes the objects of a step; returns how many came, all of them right.
  std::size_t take_step(std::uint32_t reader, std::uint64_t step, Nanoseconds patience = kLong) {
    std::size_t came = 0;
    for (const Key& key : keys_of(step, static_cast<std::uint32_t>(readers.size()), reader)) {
      const auto object = readers[reader]->take(key, patience);
      if (!object) continue;
      ++came;
      EXPECT_EQ(object->fields.key, key);
      EXPECT_TRUE(read_host(object->bytes) == bytes_of(key));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object->bytes.data()) % 64, 0);
    }
    readers[reader]->finish_step(step);
    return came;
  }
  /// One step of all readers, one after the other.
  std::size_t run_step(std::uint64_t step, Nanoseconds patience = kLong) {
    plan_until(step + 3);
    std::size_t came = 0;
    for (std::uint32_t i = 0; i < readers.size(); ++i) came += take_step(i, step, patience);
    return came;
  }

  /// The bytes of an object, wherever it lies.
  std::vector<std::byte> read_host(const ObjectBuffer& bytes) {
    on_device += bytes.is_on_device() ? 1U : 0U;
    return device->read(bytes.span());
  }

  JobDirectory directory;
  // Readers have this device, and it can read that of producers.
  std::shared_ptr<HostDevice> device = std::make_shared<HostDevice>(2, std::set<std::uint8_t>{1});
  std::atomic<std::uint64_t> on_device = 0;  // objects that came to it
  std::unique_ptr<PoolController> controller;
  std::vector<std::unique_ptr<PoolReader>> readers;
  std::uint64_t planned = 0;
};

}  // namespace tributary::memory
