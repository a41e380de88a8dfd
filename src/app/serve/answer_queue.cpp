#include "app/serve/answer_queue.h"

#include <utility>

#include "app/serve/stop_words.h"
#include "core/error.h"

namespace tributary::app {
namespace {

std::exception_ptr closing() {
  try {
    TRIB_RAISE(Fault::kResource, .what = "app: the server is ending");
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

std::optional<std::string> PendingAnswer::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !pieces_.empty(); });
  if (pieces_.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  std::string piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

void PendingAnswer::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

bool PendingAnswer::is_cancelled() {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void PendingAnswer::put(std::string piece) {
  if (piece.empty()) return;
  const std::lock_guard lock(mutex_);
  pieces_.push_back(std::move(piece));
  changed_.notify_all();
}

void PendingAnswer::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  ended_ = true;
  changed_.notify_all();
}

void PendingAnswer::compute(ChatModel& model) {
  try {
    StopWords words(stop_);
    ChatReply reply = model.answer(request_, [&](std::string_view text) {
      put(words.push(text));
      return !words.found() && !is_cancelled();
    });
    put(words.finish());
    if (words.found()) reply.end = AnswerEnd::kStop;
    const std::lock_guard lock(mutex_);
    reply_ = reply;
    ended_ = true;
    changed_.notify_all();
  } catch (...) {
    fail(std::current_exception());
  }
}

AnswerQueue::AnswerQueue(ChatModel& model) : model_(model), worker_([this] { work(); }) {}

AnswerQueue::~AnswerQueue() {
  close();
  worker_.join();
}

std::shared_ptr<PendingAnswer> AnswerQueue::ask(ChatRequest request,
                                                std::vector<std::string> stop) {
  auto answer = std::make_shared<PendingAnswer>(std::move(request), std::move(stop));
  const std::lock_guard lock(mutex_);
  if (closed_) {
    answer->fail(closing());
  } else {
    waiting_.push_back(answer);
    changed_.notify_all();
  }
  return answer;
}

void AnswerQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (current_) current_->cancel();
  for (const std::shared_ptr<PendingAnswer>& answer : waiting_) answer->fail(closing());
  waiting_.clear();
  changed_.notify_all();
}

void AnswerQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
    const std::shared_ptr<PendingAnswer> answer = current_;
    lock.unlock();
    answer->compute(model_);
    lock.lock();
    current_.reset();
  }
}

}  // namespace tributary::app
