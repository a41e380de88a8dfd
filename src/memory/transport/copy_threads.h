#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/handle.h"

namespace tributary::memory {

/// Threads that copy, so that the progress thread never does for long.
class CopyThreads {
 public:
  explicit CopyThreads(std::size_t threads);
  /// Waits for copies that have begun; those that have not are dropped.
  ~CopyThreads();

  /// A copy; what it returns is called by collect().
  using Copy = std::function<std::function<void()>()>;
  void run(Copy copy);
  /// Calls, on this thread, what finished copies returned.
  void collect();
  /// Readable while there is something to collect.
  [[nodiscard]] int wake_fd() const { return signal_.get(); }

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;  // guards waiting_ and finished_
  std::condition_variable_any changed_;
  std::deque<Copy> waiting_;
  std::vector<std::function<void()>> finished_;
  Descriptor signal_;
  std::vector<std::jthread> threads_;
};

}  // namespace tributary::memory
