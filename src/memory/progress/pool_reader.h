#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/progress/object_gets.h"
#include "memory/status.h"
#include "memory/transport/cuda/device_memory.h"
#include "memory/transport/transport.h"
#include "memory/wire/structures.h"

namespace tributary::memory {

struct PoolReaderOptions {
  std::string directory = {};      // of the job, pool_directory.h
  std::uint32_t consumer = 0;      // the index of this process among the readers
  std::uint64_t first_step = 0;    // as the controller's
  std::uint64_t ahead = 1;         // steps after the current one that are gathered already
  std::uint32_t gets = 4;          // objects on their way at a time
  std::uint32_t copy_threads = 1;  // for memory of this host
  std::vector<Engine> engines = {Engine::kMemfd, Engine::kTcp};  // that may be used
  std::shared_ptr<DeviceMemory> device = {};                     // of the engine `cuda`
  Nanoseconds patience{10'000'000'000};                          // to find the controller
};

/// What is known of an object of an unfinished planned step before it is taken.
struct ObjectOutlook {
  bool may_come = false;                     // or is here; otherwise take() gives nothing now
  std::optional<std::uint32_t> tokens = {};  // as its producer described it, once it was sealed
};

struct PoolReaderCounts {
  std::uint64_t objects = 0, bytes = 0;          // handed over
  std::uint64_t missed = 0;                      // calls of take() that gave nothing
  std::uint64_t empty = 0;                       // of them: the producers could not make the object
  double waited_seconds = 0;                     // in take()
  std::uint64_t gathered = 0;                    // objects that wait to be taken now
  std::uint64_t failed_gets = 0;                 // tried again
  std::map<std::uint16_t, Engine> engines = {};  // by producer that is in and has been read
  std::uint64_t producers = 0;                   // that are in now, as far as known here
  std::string stopped = {};                      // why nothing comes any more; empty: it goes on
};

/// A reader of a pool at work, on a thread of its own, which the destructor ends within a second.
/// It gathers the objects of its microbatches ahead of the calls that take them.
class PoolReader {
 public:
  /// Waits for the controller, for `patience` at most.
  ///
  /// errors: Fault::kResource when no controller lets this process in, with the reason: none is
  ///         there, it has no such reader, or it begins at another step
  explicit PoolReader(const PoolReaderOptions& options);
  /// Leaves the pool: steps do not wait for this reader any more.
  ~PoolReader();
  PoolReader(const PoolReader&) = delete;
  PoolReader& operator=(const PoolReader&) = delete;

  /// Waits for an object of an unfinished planned step and hands it over, once. Null, and then the
  /// caller makes it: at once when no producer is in the pool, when none has room for it or could
  /// make it, when it was taken before, or when the pool has stopped; otherwise after `patience`.
  /// One thread calls at a time.
  [[nodiscard]] std::optional<PoolObject> take(const Key& key, Nanoseconds patience);
  /// Whether some producer is in the pool, as far as known here. Any thread calls it, and the next.
  [[nodiscard]] bool has_producers() const;
  [[nodiscard]] ObjectOutlook outlook(const Key& key) const;
  /// The step is done here, whatever was taken of it; steps end in order. What was not is dropped;
  /// its GETs under way end without effect.
  void finish_step(std::uint64_t step);
  [[nodiscard]] PoolReaderCounts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary::memory
