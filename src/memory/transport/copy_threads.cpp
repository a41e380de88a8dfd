#include "memory/transport/copy_threads.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "core/error.h"

namespace tributary::memory {

CopyThreads::CopyThreads(std::size_t threads) : signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!signal_)
    TRIB_RAISE(Fault::kResource, .what = "memory: copies cannot be waited for",
               .found = std::strerror(errno), .fix = "raise `ulimit -n`");
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

CopyThreads::~CopyThreads() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void CopyThreads::run(Copy copy) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(copy));
  }
  changed_.notify_one();
}

void CopyThreads::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !waiting_.empty(); }) && !stop.stop_requested()) {
    const Copy copy = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::function<void()> finish = copy();
    lock.lock();
    finished_.push_back(std::move(finish));
    const std::uint64_t one = 1;
    // The counter cannot overflow: collect() empties it.
    [[maybe_unused]] const ssize_t written = write(signal_.get(), &one, sizeof one);
  }
}

void CopyThreads::collect() {
  std::vector<std::function<void()>> finished;
  {
    const std::scoped_lock lock(mutex_);
    finished = std::exchange(finished_, {});
    std::uint64_t count = 0;
    if (!finished.empty()) [[maybe_unused]]
      const ssize_t taken = ::read(signal_.get(), &count, sizeof count);
  }
  for (const std::function<void()>& finish : finished) finish();
}

}  // namespace tributary::memory
