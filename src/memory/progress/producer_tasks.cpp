#include "memory/progress/producer_tasks.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "memory/progress/progress_thread.h"

namespace tributary::memory {

void ProducerTasks::add(ProducerTask task) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  changed_.notify_one();
}

std::optional<ProducerTask> ProducerTasks::next(Nanoseconds patience) {
  std::unique_lock lock(mutex_);
  ++callers_;
  count_busy();
  changed_.wait_for(lock, wait_of(patience),
                    [&] { return !waiting_.empty() || !is_open_ || is_woken_; });
  --callers_;
  is_woken_ = false;
  std::optional<ProducerTask> task;
  if (is_open_ && !waiting_.empty()) {
    task = std::move(waiting_.front());
    waiting_.pop_front();
    under_way_[task->slot] = State::kBegun;
  }
  count_busy();
  return task;
}

void ProducerTasks::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  changed_.notify_all();
}

void ProducerTasks::close() {
  const std::lock_guard lock(mutex_);
  is_open_ = false;
  waiting_.clear();
  changed_.notify_all();
}

void ProducerTasks::open() {
  const std::lock_guard lock(mutex_);
  is_open_ = true;
}

ProducerTasks::State& ProducerTasks::state_of(const ProducerTask& task) {
  const auto found = under_way_.find(task.slot);
  TRIB_CHECK(found != under_way_.end(), .what = "memory: a task ends that is not under way",
             .found = str("sample ", task.key.sample));
  return found->second;
}

bool ProducerTasks::is_cancelled(const ProducerTask& task) const {
  const std::lock_guard lock(mutex_);
  const auto found = under_way_.find(task.slot);
  return found != under_way_.end() && found->second == State::kCancelled;
}

bool ProducerTasks::begin_to_write(const ProducerTask& task) {
  const std::lock_guard lock(mutex_);
  if (State& state = state_of(task); state != State::kCancelled) {
    state = State::kBeingWritten;
    return true;
  }
  forget(task);
  return false;
}

bool ProducerTasks::end(const ProducerTask& task) {
  const std::lock_guard lock(mutex_);
  const bool was_cancelled = state_of(task) == State::kCancelled;
  forget(task);
  return !was_cancelled;
}

void ProducerTasks::forget(const ProducerTask& task) {
  under_way_.erase(task.slot);
  count_busy();
}

bool ProducerTasks::cancel(SlotId slot) {
  const std::lock_guard lock(mutex_);
  if (std::erase_if(waiting_, [slot](const auto& task) { return task.slot == slot; }) > 0)
    return true;
  const auto found = under_way_.find(slot);
  if (found == under_way_.end() || found->second != State::kBegun) return false;
  found->second = State::kCancelled;
  return true;
}

Nanoseconds ProducerTasks::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_now();
}

void ProducerTasks::count_busy() {
  const bool is_busy = !under_way_.empty() && callers_ == 0;
  if (is_busy == busy_since_.has_value()) return;
  busy_ = busy_now();
  busy_since_.reset();
  if (is_busy) busy_since_ = steady_now();
}

Nanoseconds ProducerTasks::busy_now() const {
  return busy_since_ ? busy_ + (steady_now() - *busy_since_) : busy_;
}

}  // namespace tributary::memory
