#pragma once

#include <cstdint>
#include <string>

#include "app/engine/chat_model.h"
#include "core/error.h"

namespace tributary::app {

/// What all messages about one answer have in common.
struct CompletionId {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
};

/// A fresh id, of now.
[[nodiscard]] CompletionId new_completion(const std::string& model);

/// The answer as a whole, as JSON.
[[nodiscard]] std::string completion_json(const CompletionId& completion, const std::string& text,
                                          const ChatReply& reply);

/// One event of a stream, with its `data: ` and the empty line behind it.
[[nodiscard]] std::string first_event(const CompletionId& completion);
[[nodiscard]] std::string text_event(const CompletionId& completion, const std::string& text);
[[nodiscard]] std::string end_event(const CompletionId& completion, const ChatReply& reply);
[[nodiscard]] std::string usage_event(const CompletionId& completion, const ChatReply& reply);
[[nodiscard]] std::string event(const std::string& json);
inline constexpr const char* kDoneEvent = "data: [DONE]\n\n";

[[nodiscard]] std::string models_json(const std::string& model, std::int64_t created);

/// An error in the shape of OpenAI, and its HTTP status.
struct ApiError {
  int status = 400;
  std::string body;  // JSON
};
[[nodiscard]] ApiError api_error(int status, const std::string& message,
                                 const std::string& parameter = "", const std::string& code = "");
/// 400 for what the user gave, 503 where a resource lacks, 500 for a bug.
[[nodiscard]] ApiError api_error(const Error& error);

}  // namespace tributary::app
