#include "data/text/chat_template.h"

#include "core/error.h"
#include "data/sample.h"

namespace tributary::data {
namespace {

constexpr std::string_view kImStart = "<|im_start|>";
constexpr std::string_view kImEnd = "<|im_end|>";
constexpr std::string_view kVisionStart = "<|vision_start|>";
constexpr std::string_view kVisionEnd = "<|vision_end|>";
constexpr std::string_view kImagePad = "<|image_pad|>";
constexpr std::string_view kVideoPad = "<|video_pad|>";

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
  }
  TRIB_RAISE(Fault::kBug, .what = "data: role without a name", .found = str(int(role)));
}

std::string_view pad_of(Modality modality) {
  TRIB_CHECK(modality == Modality::kImage || modality == Modality::kVideo,
             .what = "data: chat item is neither image nor clip", .found = str(int(modality)));
  return modality == Modality::kImage ? kImagePad : kVideoPad;
}

/// The targets: each token that counts, moved to the place that predicts it.
std::vector<std::int64_t> list_targets(const std::vector<TokenId>& tokens,
                                       const std::vector<bool>& counts) {
  std::vector<std::int64_t> targets(tokens.size(), kIgnoredTarget);
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if (counts[i]) targets[i - 1] = tokens[i];
  }
  return targets;
}

}  // namespace

/// A stretch of the rendered chat that is tokenised on its own.
struct ChatTemplate::Segment {
  std::string text = {};
  bool is_control = false;  // `text` is one control token
  bool counts = false;      // its tokens count in the loss
  std::optional<MediaReference> media = {};
};

ChatTemplate::ChatTemplate(const Tokenizer& tokenizer, ChatOptions options)
    : tokenizer_(&tokenizer),
      options_(std::move(options)),
      im_end_(tokenizer.id_of(kImEnd)),
      image_pad_(tokenizer.find(kImagePad)),
      video_pad_(tokenizer.find(kVideoPad)) {
  (void)tokenizer.id_of(kImStart);
}

std::vector<ChatTemplate::Segment> ChatTemplate::list_segments(std::span<const Turn> turns,
                                                               ChatEnd end) const {
  std::vector<Segment> segments;
  const auto control = [&](std::string_view token, bool counts) {
    segments.push_back({.text = std::string(token), .is_control = true, .counts = counts});
  };
  const auto plain = [&](std::string_view text, bool counts) {
    // Neighbouring text is tokenised together, as in the reference, unless only one of them counts.
    const bool joins =
        !segments.empty() && !segments.back().is_control && segments.back().counts == counts;
    if (!joins) segments.push_back({.counts = counts});
    segments.back().text += text;
  };
  const auto add_turn = [&](const Turn& turn) {
    const bool counts = turn.role == Role::kAssistant && turn.is_learned;
    control(kImStart, false);
    plain(name_of(turn.role), false);
    plain("\n", false);
    for (const Part& part : turn.parts) {
      if (const auto* text = std::get_if<std::string>(&part)) {
        plain(*text, counts);
        continue;
      }
      const auto& media = std::get<MediaReference>(part);
      control(kVisionStart, false);
      control(pad_of(media.modality), false);
      segments.back().media = media;
      control(kVisionEnd, false);
    }
    control(kImEnd, counts);
    plain("\n", counts && options_.train_on_newline);
  };
  const bool lacks_system = turns.empty() || turns.front().role != Role::kSystem;
  if (lacks_system && !options_.system_prompt.empty()) {
    add_turn({Role::kSystem, {options_.system_prompt}});
  }
  for (const Turn& turn : turns) add_turn(turn);
  if (end == ChatEnd::kGenerationPrompt) {
    control(kImStart, false);
    plain("assistant\n", false);
  }
  return segments;
}

std::string ChatTemplate::render(std::span<const Turn> turns, ChatEnd end) const {
  std::string text = {};
  for (const Segment& segment : list_segments(turns, end)) text += segment.text;
  return text;
}

EncodedChat ChatTemplate::encode(std::span<const Turn> turns, ChatEnd end) const {
  EncodedChat chat;
  std::vector<bool> counts;
  for (const Segment& segment : list_segments(turns, end)) {
    if (segment.is_control) {
      chat.tokens.push_back(tokenizer_->id_of(segment.text));
    } else {
      tokenizer_->encode_to(segment.text, SpecialText::kPlain, chat.tokens);
    }
    if (segment.media) chat.media.push_back(*segment.media);
    counts.resize(chat.tokens.size(), segment.counts);
  }
  chat.targets = list_targets(chat.tokens, counts);
  return chat;
}

EncodedChat ChatTemplate::expand_media(const EncodedChat& chat,
                                       std::span<const std::int64_t> merged_tokens) const {
  TRIB_REQUIRE(merged_tokens.size() == chat.media.size(),
               .what = "data: token counts do not belong to the chat",
               .found = str(merged_tokens.size(), " counts"),
               .expected = str(chat.media.size(), ", one for each image or clip"));
  EncodedChat expanded = {.tokens = {}, .targets = {}, .media = chat.media};
  std::size_t item = 0;
  for (std::size_t i = 0; i < chat.tokens.size(); ++i) {
    const TokenId token = chat.tokens[i];
    if (token == image_pad_ || token == video_pad_) {
      const std::int64_t copies = merged_tokens[item];
      TRIB_REQUIRE(copies > 0, .what = "data: image or clip has no tokens",
                   .where = str("item ", item), .found = str(copies), .expected = "at least 1");
      // Within an item a pad predicts the next pad, which is never learned.
      expanded.tokens.insert(expanded.tokens.end(), copies - 1, token);
      expanded.targets.insert(expanded.targets.end(), copies - 1, kIgnoredTarget);
      ++item;
    }
    expanded.tokens.push_back(token);
    expanded.targets.push_back(chat.targets[i]);
  }
  TRIB_CHECK(item == chat.media.size(), .what = "data: chat has pads without an item",
             .found = str(item, " of ", chat.media.size()));
  return expanded;
}

}  // namespace tributary::data
