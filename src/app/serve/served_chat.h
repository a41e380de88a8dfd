#pragma once

#include <string>
#include <vector>

#include "app/engine/chat_model.h"
#include "core/json.h"

namespace tributary::app {

/// A request of POST /v1/chat/completions, checked.
struct ServedChat {
  ChatRequest chat;
  std::vector<std::string> stop;  // words that end the answer
  bool streams = false;
  bool counts_usage = false;  // in the stream too
};

/// Reads the body of a request. Parameters that would change the answer and that nothing here obeys
/// are refused; those that only describe the request are ignored.
///
/// errors: Fault::kInput whose `where` is the parameter: unknown, unsupported, of another type, out
///         of range; pictures that are no data URL or cannot be decoded; pictures for a text model
[[nodiscard]] ServedChat read_served_chat(const Json& body, bool sees_pictures);

}  // namespace tributary::app
