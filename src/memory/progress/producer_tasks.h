#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/units.h"
#include "memory/object/object_table.h"

namespace tributary::memory {

/// An object that a producer is to make.
struct ProducerTask {
  SlotId slot{};
  Key key = {};
  std::uint64_t step = 0;
  std::vector<std::span<std::byte>> pages = {};  // of the object, in order
};

/// The tasks of a producer, which its progress thread hands to threads that encode. Nobody writes
/// into the pages of a cancelled task. Used by any thread.
class ProducerTasks {
 public:
  void add(ProducerTask task);
  /// Waits for the next task. Null: `patience` passed, or wake() or close() was called.
  [[nodiscard]] std::optional<ProducerTask> next(Nanoseconds patience);
  void wake();
  /// There are no more tasks, until open().
  void close();
  void open();

  /// A cancelled task still ends, with one of the next two.
  [[nodiscard]] bool is_cancelled(const ProducerTask& task) const;
  /// From here on the task cannot be cancelled. False: it was, and has ended.
  ///
  /// errors: Fault::kBug when the task is not under way; the same for end()
  [[nodiscard]] bool begin_to_write(const ProducerTask& task);
  /// False: it was cancelled.
  bool end(const ProducerTask& task);
  /// False, and nothing changes, when its object is being written, or it has ended or is cancelled.
  [[nodiscard]] bool cancel(SlotId slot);

  /// How long some task has been under way while nobody waited in next(), in all.
  [[nodiscard]] Nanoseconds busy() const;

 private:
  enum class State { kBegun, kBeingWritten, kCancelled };

  // Under the mutex.
  State& state_of(const ProducerTask& task);
  void forget(const ProducerTask& task);
  /// Starts or stops the clock of busy time, where it has to.
  void count_busy();
  [[nodiscard]] Nanoseconds busy_now() const;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<ProducerTask> waiting_;
  std::map<SlotId, State> under_way_;  // handed out, and not ended
  bool is_open_ = true, is_woken_ = false;
  int callers_ = 0;     // threads in next()
  Nanoseconds busy_{};  // until busy_since_, if it is busy now
  std::optional<TimePoint> busy_since_;
};

}  // namespace tributary::memory
