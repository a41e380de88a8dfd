#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/decode/sound_file.h"
#include "data/record/conversation.h"
#include "data/sample.h"

namespace tributary::app {

struct ChatModelOptions {
  std::string path;  // Hugging Face directory, run or checkpoint
  std::optional<std::string>
      system;                  // of chats without a system turn; empty: none; null: the run's
  std::string device = "cpu";  // as run.device
};

/// A picture of a chat, and what a message calls it.
struct ChatPicture {
  std::string name;
  data::Picture picture;
};

/// A sound of a chat, likewise.
struct ChatSound {
  std::string name;
  data::Sound sound;
};

/// A chat whose next turn the model is to say.
struct ChatRequest {
  std::vector<data::Turn> turns;
  std::vector<ChatPicture> pictures;           // a MediaReference of a turn indexes this list
  std::vector<ChatSound> sounds;               // or this one
  std::optional<std::int64_t> max_new_tokens;  // null: up to 1024, as far as the context reaches
  double temperature = 0;                      // 0: greedy
  double top_p = 1;
  std::uint64_t seed = 0;
  std::string limit_name = "--max-new-tokens";  // how the user calls max_new_tokens
};

/// Why an answer ended: the model ended it, it was as long as allowed, or `on_text` said so.
enum class AnswerEnd { kStop, kLength, kAsked };

struct ChatReply {
  std::int64_t prompt_tokens = 0;
  std::int64_t answer_tokens = 0;
  AnswerEnd end = AnswerEnd::kStop;
};

/// A model that answers chats, one at a time. It computes in the thread that calls; always the same
/// one is best, for each thread has compute threads of its own.
class ChatModel {
 public:
  /// Gets each piece of the answer as soon as it is text. False ends the answer.
  using OnText = std::function<bool(std::string_view)>;

  virtual ~ChatModel() = default;

  /// Whether chats may hold pictures.
  [[nodiscard]] virtual bool sees_pictures() const = 0;
  /// Whether they may hold sounds.
  [[nodiscard]] virtual bool hears() const = 0;
  /// Loads the weights; the first answer does it otherwise.
  ///
  /// errors: Fault::kInput where they do not fit config.json, or are damaged
  virtual void load() = 0;
  /// errors: Fault::kInput when prompt and answer do not fit into the model's context, when a
  ///         picture or sound does not fit the model, or for a temperature or top_p that is out of
  ///         range
  /// cost:   the whole chat is computed again for each answer
  virtual ChatReply answer(const ChatRequest& request, const OnText& on_text) = 0;
};

}  // namespace tributary::app
