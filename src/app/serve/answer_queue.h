#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/engine/chat_model.h"

namespace tributary::app {

/// An answer on its way from the thread of the model to the one that asked.
class PendingAnswer {
 public:
  PendingAnswer(ChatRequest request, std::vector<std::string> stop)
      : request_(std::move(request)), stop_(std::move(stop)) {}

  /// Waits for the next piece; null when the answer has ended.
  /// errors: what the model threw
  [[nodiscard]] std::optional<std::string> next();
  /// How it ended; once next() gave null.
  [[nodiscard]] const ChatReply& reply() const { return reply_; }
  /// Nobody waits for it any more: it ends as soon as it can.
  void cancel();

 private:
  friend class AnswerQueue;
  void compute(ChatModel& model);
  void fail(std::exception_ptr failure);
  void put(std::string piece);
  [[nodiscard]] bool is_cancelled();

  ChatRequest request_;
  std::vector<std::string> stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  bool ended_ = false;
  bool cancelled_ = false;
  std::exception_ptr failure_;
  ChatReply reply_;
};

/// Lets one model answer requests of many threads, one after the other, on a thread of its own.
///
/// owns: the thread, which ends at destruction after it has dropped what waits
class AnswerQueue {
 public:
  explicit AnswerQueue(ChatModel& model);
  ~AnswerQueue();
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  /// `stop`: words that end the answer; they are not part of it.
  [[nodiscard]] std::shared_ptr<PendingAnswer> ask(ChatRequest request,
                                                   std::vector<std::string> stop);
  /// Ends the current answer and refuses all others from now on.
  void close();

 private:
  void work();

  ChatModel& model_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<PendingAnswer>> waiting_;
  std::shared_ptr<PendingAnswer> current_;
  bool closed_ = false;
  std::thread worker_;
};

}  // namespace tributary::app
