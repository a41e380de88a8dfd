#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "app/engine/chat_model.h"

namespace tributary::app {

struct TerminalChat {
  ChatModel& model;
  std::string name;      // of the model, for messages
  ChatRequest decoding;  // how answers are decoded; without turns
  bool prompts = true;   // a person types: a line of help and `> ` before each turn
  std::function<bool()> is_interrupted = [] { return false; };  // asked while an answer comes
};

/// Talks until the input ends or says /quit: a line is what the user says, or a command (/image,
/// /system, /reset, /help, /quit). Each answer is computed from the whole chat.
///
/// errors: none of a turn leaves this: it is shown on standard error, and the turn is forgotten
void talk(const TerminalChat& chat, std::istream& in, std::ostream& out);

}  // namespace tributary::app
