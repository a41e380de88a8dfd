#pragma once

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

}  // namespace tributary::memory
