#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/object/object_table.h"
#include "memory/progress/object_gets.h"
#include "memory/progress/producer_tasks.h"
#include "memory/status.h"
#include "memory/transport/cuda/device_memory.h"
#include "memory/transport/transport.h"

namespace tributary::memory {

struct PoolProducerOptions {
  std::string directory = {};         // of the job, pool_directory.h
  std::uint64_t capacity_bytes = 0;   // of the segment; rounded down to whole pages of the job
  std::uint32_t encoders = 1;         // tasks that are under way at a time; any number where some
                                      // wait for what others lend
  std::uint32_t encode_attempts = 3;  // before an object counts as one that cannot be made
  bool allow_public = false;          // whether it may listen at an address of the public network
  std::vector<Engine> engines = {Engine::kMemfd, Engine::kTcp};  // that readers may use
  std::shared_ptr<DeviceMemory> device = {};  // of the engine `cuda`; has a copy of the segment
  std::optional<std::uint16_t> process = {};  // its number in the pool; empty: drawn
  Nanoseconds patience{10'000'000'000};       // to find a controller and be let in
};

struct PoolProducerCounts {
  std::uint16_t process = 0;             // its number in the pool
  std::uint64_t objects = 0, bytes = 0;  // made
  std::uint64_t failed = 0;              // calls of fail()
  std::uint64_t pages_used = 0, pages_total = 0;
  double busy_seconds = 0;     // some task was under way, and nobody waited in next()
  double blocked_seconds = 0;  // assigned work was there, encoders were idle, and pages or credits
                               // did not let it start
};

/// A producer of a pool at work: joins the job of a directory, hands out what is to be made, and
/// serves it to readers, on a thread of its own, which the destructor ends within a second.
class PoolProducer {
 public:
  /// Waits for a controller that lets it in, for `patience` at most.
  ///
  /// errors: those of join_pool() when none does, with the reason: none is there, the capacity is
  ///         too small, or the number of the process is taken or none of a producer; those of
  ///         listen_on(); Fault::kResource without the memory
  explicit PoolProducer(const PoolProducerOptions& options);
  /// Leaves the pool; its objects are made again by others. No task is under way.
  ~PoolProducer();
  PoolProducer(const PoolProducer&) = delete;
  PoolProducer& operator=(const PoolProducer&) = delete;

  using Task = ProducerTask;
  /// Waits for the next object to make; several threads may, but then `busy_seconds` says too
  /// little. Ends with finish(), fail() or drop().
  /// Null: the job ended, `patience` passed without work, or something that was asked for has come.
  [[nodiscard]] std::optional<Task> next(Nanoseconds patience);
  /// Copies the bytes into the pages and computes their checksum, on the caller's thread; of the
  /// description dtype, shape and tokens count. Does nothing after the end of the job. `on_device`
  /// has the same bytes on the producer's device, written by work that has ended, or is null: then
  /// readers copy them from the host. False: the task was cancelled, and the bytes went nowhere.
  ///
  /// errors: Fault::kBug when the pages do not hold the bytes or the task is not under way
  bool finish(const Task& task, std::span<const std::byte> bytes,
              const ObjectDescription& description, const std::byte* on_device = nullptr);
  /// The object could not be made. It is tried again, here; after `encode_attempts` readers are
  /// told that nobody makes it.
  void fail(const Task& task, std::string reason);
  /// Nobody needs the object any more: its step is over, or its readers will not get to it.
  void drop(const Task& task);
  /// Whether the task was cancelled: an older step needs its pages. Its object comes as a new task,
  /// later. This one still ends with one of the above, which then does nothing.
  [[nodiscard]] bool is_cancelled(const Task& task) const;

  /// Begins to read an object of another producer, which tasks of the step depend on. Again it does
  /// nothing.
  void ask(const Key& key, std::uint64_t step);
  /// Hands an object that was asked for over, once it is there. When one comes, next() returns.
  /// Without bytes: its producer will not make it. Null: not yet, or its step is over.
  [[nodiscard]] std::optional<PoolObject> take(const Key& key);
  /// Steps before it are over, as far as known here.
  [[nodiscard]] std::uint64_t low() const;

  /// Takes no more work: what is assigned to it already is still to be made, and is lent until it
  /// has been used.
  void leave();
  /// Whether nobody needs this producer any more, after leave().
  [[nodiscard]] bool has_left() const;

  enum class End {
    kNone,            // it goes on
    kFinished,        // the run is over
    kControllerLost,  // or it has stopped the job
    kFenced,          // this process was silent for too long, and what it has is not read any more
  };
  [[nodiscard]] End end() const;
  /// Says why, for the log.
  [[nodiscard]] std::string end_reason() const;
  [[nodiscard]] PoolProducerCounts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary::memory
