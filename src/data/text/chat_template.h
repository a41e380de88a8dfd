#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/record/conversation.h"
#include "data/text/media_words.h"
#include "data/text/tokenizer.h"

namespace tributary::data {

struct ChatOptions {
  std::string system_prompt;  // put in front of a chat without system turn; empty: none
  MediaForm media = MediaForm::kQwenVl;
  bool train_on_newline = true;  // the "\n" after the <|im_end|> of an answer counts in the loss
  bool numbers_sounds = false;   // "Audio 1: " in front of each sound, a newline behind
};

/// Where a rendered chat ends: after its last turn, or where the assistant continues.
enum class ChatEnd { kLastTurn, kGenerationPrompt };

/// A chat as ids, with its targets.
struct EncodedChat {
  std::vector<TokenId> tokens;
  std::vector<std::int64_t> targets;  // per token: the NEXT token where it counts, else -100
  std::vector<MediaReference> media;  // in order of appearance
  std::vector<int> pads = {};         // pad tokens of each: one, or one a step of a clip
};

/// The targets: each token that counts, moved to the place that predicts it.
/// shape: counts [tokens]
[[nodiscard]] std::vector<std::int64_t> list_targets(const std::vector<TokenId>& tokens,
                                                     const std::vector<bool>& counts);

/// The time [s] of each step of a clip, where steps have words of their own; else nothing.
using ClipTimes = std::function<std::vector<double>(const MediaReference& clip)>;

/// The chats of the families, built from turns and not from text, so that the text of a user cannot
/// become a control token. The tokenizer says which: ChatML where it has <|im_start|>, the headers
/// of Llama 3 where it has <|start_header_id|>, with the dates of Llama 3.1 where it has
/// <|eom_id|>.
///
/// Text: equals the published templates of the families without tools and thinking
/// (data/text/model_template.cpp lists them), with the date that Llama 3.1 has by default;
/// docs/theory/numerics.md, "Prompt and targets". A clip whose steps have times is written as by
/// Qwen3-VL: `<0.2 seconds>` and a pad of its own for each step; with numbers_sounds, sounds as by
/// Qwen2-Audio.
/// Ids: equal those of the rendered text, except that the answer is tokenised apart from the
/// "assistant\n" before it, as in generation. This shows only when an answer begins with white
/// space that holds a newline. owns: borrows the tokenizer, which must outlive it
class ChatTemplate {
 public:
  struct Style;  // how a family writes its turns

  /// errors: Fault::kInput when the tokenizer has the tokens of no known chat
  ChatTemplate(const Tokenizer& tokenizer, ChatOptions options);

  [[nodiscard]] std::string render(std::span<const Turn> turns, ChatEnd end) const;

  /// Loss is on the text of learned assistant turns, the token that ends them and, of ChatML, the
  /// newline after it.
  ///
  /// errors: Fault::kInput when a turn holds a medium and the tokenizer has no token for it
  [[nodiscard]] EncodedChat encode(std::span<const Turn> turns, ChatEnd end,
                                   const ClipTimes& clip_times = {}) const;

  /// Whether a token stands for a piece of a medium.
  [[nodiscard]] bool is_pad(TokenId token) const;
  /// Whether there is a token in front of each pad, and one behind it.
  [[nodiscard]] bool wraps_pads() const { return data::wraps_pads(options_.media); }
  /// The token that ends a turn: generation stops there.
  [[nodiscard]] TokenId end_of_turn() const { return end_of_turn_; }

  /// Repeats the pads of each item until they stand once for every merged token of the item.
  ///
  /// shape:  merged_tokens [chat.media.size()], in order of appearance, each above 0
  /// errors: Fault::kInput when the numbers do not belong to the pads of the chat
  [[nodiscard]] EncodedChat expand_media(const EncodedChat& chat,
                                         std::span<const std::int64_t> merged_tokens) const;

 private:
  struct Segment;
  class Writer;
  [[nodiscard]] std::vector<Segment> list_segments(std::span<const Turn> turns, ChatEnd end,
                                                   const ClipTimes& clip_times) const;

  const Tokenizer* tokenizer_;
  ChatOptions options_;
  const Style* style_;
  TokenId end_of_turn_;
  std::vector<TokenId> pads_;  // that the tokenizer has
};

}  // namespace tributary::data
