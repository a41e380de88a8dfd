#include "app/chat/terminal_chat.h"

#include <istream>
#include <ostream>

#include "app/chat/read_media.h"
#include "app/terminal/show_error.h"
#include "core/error.h"
#include "core/text.h"

namespace tributary::app {
namespace {

constexpr const char* kHelp =
    "/image PATH adds a picture to what you say next, /system TEXT sets the system prompt (no "
    "text: "
    "the first one again), /reset forgets the chat, /quit ends it\n";

class Conversation {
 public:
  Conversation(const TerminalChat& chat, std::ostream& out)
      : chat_(chat), out_(out), request_(chat.decoding) {}

  /// False ends the chat.
  bool take(const std::string& line) {
    if (line.empty()) return true;
    if (line.front() != '/') return say(line), true;
    const std::size_t space = line.find(' ');
    const std::string command = line.substr(0, space);
    const std::size_t word =
        space == std::string::npos ? space : line.find_first_not_of(' ', space);
    const std::string argument = word == std::string::npos ? "" : line.substr(word);
    if (command == "/quit") return false;
    obey(command, argument);
    return true;
  }

 private:
  void obey(const std::string& command, const std::string& argument) {
    if (command == "/image") {
      require_vision(chat_.model, chat_.name, 1);
      add_picture(read_picture(argument), next_, request_);
      out_ << "picture added: " << argument << "\n";
    } else if (command == "/system") {
      set_system(argument);
      out_ << (argument.empty() ? "the first system prompt again\n" : "system prompt set\n");
    } else if (command == "/reset") {
      request_ = chat_.decoding;
      next_ = {};
      if (!system_.empty()) set_system(system_);
      out_ << "chat forgotten\n";
    } else if (command == "/help") {
      out_ << kHelp;
    } else {
      TRIB_RAISE(Fault::kInput, .what = "app: unknown command", .found = escaped(command),
                 .expected = "/image, /system, /reset, /help or /quit");
    }
  }

  void set_system(const std::string& text) {
    std::vector<data::Turn>& turns = request_.turns;
    if (!turns.empty() && turns.front().role == data::Role::kSystem) turns.erase(turns.begin());
    if (!text.empty()) turns.insert(turns.begin(), {.role = data::Role::kSystem, .parts = {text}});
    system_ = text;
  }

  void say(const std::string& text) {
    next_.parts.emplace_back(text);
    request_.turns.push_back(next_);
    std::string answer;
    try {
      (void)chat_.model.answer(request_, [&](std::string_view piece) {
        answer += piece;
        out_ << piece << std::flush;
        return !chat_.is_interrupted();
      });
    } catch (const Error&) {
      request_.turns.pop_back();  // its pictures wait for the next try
      next_.parts.pop_back();
      throw;
    }
    out_ << std::endl;
    next_ = {};
    request_.turns.push_back({.role = data::Role::kAssistant, .parts = {answer}});
  }

  const TerminalChat& chat_;
  std::ostream& out_;
  ChatRequest request_;
  data::Turn next_;  // with the pictures that wait for its text
  std::string system_;
};

}  // namespace

void talk(const TerminalChat& chat, std::istream& in, std::ostream& out) {
  Conversation conversation(chat, out);
  if (chat.prompts) out << kHelp;
  std::string line;
  while (true) {
    if (chat.prompts) out << "> " << std::flush;
    if (!std::getline(in, line)) break;
    try {
      if (!conversation.take(line)) return;
    } catch (const Error& error) {
      show_error(error.what(), static_cast<int>(error.exit_code()));
    }
  }
  if (chat.prompts) out << std::endl;
}

}  // namespace tributary::app
