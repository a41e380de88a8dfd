#include "app/serve/api_json.h"

#include <chrono>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "core/json.h"

namespace tributary::app {
namespace {

const char* finish_reason(const ChatReply& reply) {
  return reply.end == AnswerEnd::kLength ? "length" : "stop";
}

Json usage_of(const ChatReply& reply) {
  return {{"prompt_tokens", reply.prompt_tokens},
          {"completion_tokens", reply.answer_tokens},
          {"total_tokens", reply.prompt_tokens + reply.answer_tokens}};
}

Json head_of(const CompletionId& completion, const char* object) {
  return {{"id", completion.id},
          {"object", object},
          {"created", completion.created},
          {"model", completion.model}};
}

std::string write(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string chunk_event(const CompletionId& completion, const Json& delta, const Json& reason) {
  Json chunk = head_of(completion, "chat.completion.chunk");
  chunk["choices"] = {
      {{"index", 0}, {"delta", delta}, {"finish_reason", reason}, {"logprobs", nullptr}}};
  return event(write(chunk));
}

}  // namespace

std::string event(const std::string& json) { return str("data: ", json, "\n\n"); }

CompletionId new_completion(const std::string& model) {
  std::random_device random;
  std::ostringstream id;
  id << "chatcmpl-" << std::hex << std::setfill('0');
  for (int i = 0; i < 4; ++i) id << std::setw(8) << random();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = id.str(),
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = model};
}

std::string completion_json(const CompletionId& completion, const std::string& text,
                            const ChatReply& reply) {
  Json json = head_of(completion, "chat.completion");
  json["choices"] = {{{"index", 0},
                      {"message", {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}}},
                      {"finish_reason", finish_reason(reply)},
                      {"logprobs", nullptr}}};
  json["usage"] = usage_of(reply);
  return write(json);
}

std::string first_event(const CompletionId& completion) {
  return chunk_event(completion, {{"role", "assistant"}, {"content", ""}}, nullptr);
}

std::string text_event(const CompletionId& completion, const std::string& text) {
  return chunk_event(completion, {{"content", text}}, nullptr);
}

std::string end_event(const CompletionId& completion, const ChatReply& reply) {
  return chunk_event(completion, Json::object(), finish_reason(reply));
}

std::string usage_event(const CompletionId& completion, const ChatReply& reply) {
  Json chunk = head_of(completion, "chat.completion.chunk");
  chunk["choices"] = Json::array();
  chunk["usage"] = usage_of(reply);
  return event(write(chunk));
}

std::string models_json(const std::string& model, std::int64_t created) {
  return write(
      {{"object", "list"},
       {"data",
        {{{"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "local"}}}}});
}

ApiError api_error(int status, const std::string& message, const std::string& parameter,
                   const std::string& code) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  const Json error{{"message", message},
                   {"type", status < 500 ? "invalid_request_error" : "server_error"},
                   {"param", text_or_null(parameter)},
                   {"code", text_or_null(code)}};
  return {.status = status, .body = write({{"error", error}})};
}

ApiError api_error(const Error& error) {
  const ErrorParts& parts = error.parts();
  std::string message = parts.what;
  if (!parts.where.empty()) message += str(" ", parts.where);
  if (!parts.found.empty()) message += str("; found: ", parts.found);
  if (!parts.expected.empty()) message += str("; expected: ", parts.expected);
  if (!parts.fix.empty()) message += str("; fix: ", parts.fix);
  switch (error.fault()) {
    case Fault::kInput:
      return api_error(400, message, parts.where);
    case Fault::kResource:
      return api_error(503, message);
    case Fault::kBug:
      break;
  }
  return api_error(500, message);
}

}  // namespace tributary::app
