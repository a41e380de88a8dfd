#include "memory/progress/progress_thread.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "core/error.h"
#include "core/stopwatch.h"

namespace tributary::memory {

std::chrono::nanoseconds wait_of(Nanoseconds patience) {
  constexpr Nanoseconds kDay{86'400'000'000'000};
  return std::chrono::nanoseconds(std::min(patience, kDay).count);
}

TimePoint steady_now() { return {static_cast<std::int64_t>(now_seconds() * 1e9)}; }

ProgressThread::ProgressThread(std::function<bool(TimePoint)> turn,
                               std::function<void(const std::string&)> fail)
    : turn_(std::move(turn)),
      fail_(std::move(fail)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !signal_)
    TRIB_RAISE(Fault::kResource, .what = "memory: progress thread has no descriptors",
               .found = std::strerror(errno), .fix = "raise `ulimit -n`");
  watch(signal_.get());
}

ProgressThread::~ProgressThread() {
  thread_.request_stop();
  post([] {});
}

void ProgressThread::watch(int descriptor) {
  epoll_event event = {.events = EPOLLIN, .data = {.fd = descriptor}};
  TRIB_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0,
             .what = "memory: progress thread cannot watch", .found = std::strerror(errno));
}

void ProgressThread::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

void ProgressThread::post(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(signal_.get(), &one, sizeof one);
}

void ProgressThread::run(const std::function<void()>& command) {
  std::promise<void> done;
  post([&] {
    guard(command);
    done.set_value();
  });
  done.get_future().wait();
}

void ProgressThread::guard(const std::function<void()>& run) const {
  try {
    run();
  } catch (const std::exception& error) {
    fail_(error.what());
  }
}

bool ProgressThread::run_commands() {
  std::uint64_t counter = 0;
  [[maybe_unused]] const ssize_t bytes = read(signal_.get(), &counter, sizeof counter);
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) guard(command);
  return !commands.empty();
}

void ProgressThread::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    bool is_busy = run_commands();
    guard([&] { is_busy |= turn_(steady_now()); });
    if (is_busy) continue;
    std::array<epoll_event, 8> ready;
    epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()),
               static_cast<int>(kTick.count / 1'000'000));
  }
}

}  // namespace tributary::memory
