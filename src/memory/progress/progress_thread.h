#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/handle.h"
#include "memory/status.h"

namespace tributary::memory {

/// Now, on the steady clock.
[[nodiscard]] TimePoint steady_now();

/// How long a caller waits: a day at most, so that no moment overflows.
[[nodiscard]] std::chrono::nanoseconds wait_of(Nanoseconds patience);

/// A thread that makes progress: it runs commands of other threads and its turn, and sleeps while
/// there is nothing to do. Nothing on it waits for anything else.
class ProgressThread {
 public:
  /// How often a turn comes when nothing happens: deadlines and heartbeats need it.
  static constexpr Nanoseconds kTick{10'000'000};

  /// `turn` polls once and returns whether there was anything to do. An exception out of it or of a
  /// command goes to `fail`, and the thread goes on.
  ProgressThread(std::function<bool(TimePoint now)> turn,
                 std::function<void(const std::string& what)> fail);
  /// Ends after the turn under way; commands that have not begun are dropped.
  ~ProgressThread();

  /// Wakes the thread when the descriptor is readable. Before start(), or on the thread.
  void watch(int descriptor);
  void start();
  /// Runs a command on the thread, in the order of calls.
  void post(std::function<void()> command);
  /// Runs a command and waits for its end. Not on the thread itself.
  void run(const std::function<void()>& command);

 private:
  void work(const std::stop_token& stop);
  [[nodiscard]] bool run_commands();
  void guard(const std::function<void()>& run) const;

  std::function<bool(TimePoint)> turn_;
  std::function<void(const std::string&)> fail_;
  Descriptor epoll_, signal_;
  std::mutex mutex_;  // guards commands_
  std::vector<std::function<void()>> commands_;
  std::jthread thread_;
};

}  // namespace tributary::memory
