#include "data/text/chat_template.h"

#include <algorithm>
#include <utf8proc.h>
#include <utility>

#include "core/error.h"
#include "data/sample.h"

namespace tributary::data {
namespace {

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

}  // namespace

/// How turns are written: the control tokens around a role, and what ends a turn.
struct ChatTemplate::Style {
  std::string_view begin;        // of the chat; empty: nothing
  std::string_view start;        // in front of the role
  std::string_view after_role;   // a control token; empty: none
  std::string_view before_text;  // plain
  std::string_view end;          // of a turn
  std::string_view after_end;    // plain
  bool trims = false;            // white space at both ends of a turn
  std::string_view preamble{};   // of the system turn, which then is never left out
};

namespace {

constexpr ChatTemplate::Style kChatMl{.begin = "",
                                      .start = "<|im_start|>",
                                      .after_role = "",
                                      .before_text = "\n",
                                      .end = "<|im_end|>",
                                      .after_end = "\n"};
constexpr ChatTemplate::Style kLlama3{.begin = "<|begin_of_text|>",
                                      .start = "<|start_header_id|>",
                                      .after_role = "<|end_header_id|>",
                                      .before_text = "\n\n",
                                      .end = "<|eot_id|>",
                                      .after_end = "",
                                      .trims = true};

constexpr ChatTemplate::Style kLlama31 = [] {
  ChatTemplate::Style style = kLlama3;
  style.preamble = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  return style;
}();
/// A control token that Llama 3.1 has and Llama 3 has not.
constexpr std::string_view kEndOfMessage = "<|eom_id|>";

const ChatTemplate::Style& style_of(const Tokenizer& tokenizer) {
  if (tokenizer.find(kChatMl.start) || !tokenizer.find(kLlama3.start)) return kChatMl;
  return tokenizer.find(kEndOfMessage) ? kLlama31 : kLlama3;
}

/// The white space that Python's strip takes away.
bool is_python_space(std::int32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

/// Where the text begins and ends without white space around it; [0, 0) for nothing else.
std::pair<std::size_t, std::size_t> bounds_of(std::string_view text) {
  std::size_t first = text.size();
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = -1;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());  // NOLINT
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    const std::size_t next = at + static_cast<std::size_t>(std::max<utf8proc_ssize_t>(1, length));
    if (length < 0 || !is_python_space(code)) {
      first = std::min(first, at);
      end = next;
    }
    at = next;
  }
  return {std::min(first, end), end};
}

/// Takes white space off both ends of a turn.
std::vector<Part> trimmed(std::vector<Part> parts) {
  const auto trim = [](auto begin, auto end, bool at_start) {
    for (auto part = begin; part != end; ++part) {
      auto* text = std::get_if<std::string>(&*part);
      if (text == nullptr) return;
      const auto [first, last] = bounds_of(*text);
      *text = at_start ? text->substr(last == 0 ? text->size() : first) : text->substr(0, last);
      if (!text->empty()) return;
    }
  };
  trim(parts.begin(), parts.end(), true);
  trim(parts.rbegin(), parts.rend(), false);
  return parts;
}

/// The images of a turn, then its clips, then its text.
std::vector<Part> media_first(std::vector<Part> parts) {
  std::ranges::stable_sort(parts, {}, [](const Part& part) {
    const auto* media = std::get_if<MediaReference>(&part);
    if (media == nullptr) return 2;
    return media->modality == Modality::kImage ? 0 : 1;
  });
  return parts;
}

}  // namespace

std::vector<std::int64_t> list_targets(const std::vector<TokenId>& tokens,
                                       const std::vector<bool>& counts) {
  std::vector<std::int64_t> targets(tokens.size(), kIgnoredTarget);
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if (counts[i]) targets[i - 1] = tokens[i];
  }
  return targets;
}

/// A stretch of the rendered chat that is tokenised on its own.
struct ChatTemplate::Segment {
  std::string text = {};
  bool is_control = false;                   // `text` is one control token
  bool counts = false;                       // its tokens count in the loss
  std::optional<MediaReference> media = {};  // that the pad begins
  bool is_next_pad = false;                  // of the same item
};

/// Lists the segments of a chat.
class ChatTemplate::Writer {
 public:
  Writer(const Style& style, const ChatOptions& options, const ClipTimes& clip_times)
      : style_(style), options_(options), clip_times_(clip_times) {
    if (!style.begin.empty()) control(style.begin, false);
  }

  void begin_turn(Role role) {
    control(style_.start, false);
    plain(name_of(role), false);
    if (!style_.after_role.empty()) control(style_.after_role, false);
    plain(style_.before_text, false);
  }
  void add_turn(const Turn& turn) {
    const bool counts = turn.role == Role::kAssistant && turn.is_learned;
    begin_turn(turn.role);
    if (turn.role == Role::kSystem) plain(style_.preamble, false);
    const std::vector<Part> parts = style_.trims ? trimmed(turn.parts) : turn.parts;
    for (const Part& part : puts_media_first(options_.media) ? media_first(parts) : parts) {
      if (const auto* text = std::get_if<std::string>(&part))
        plain(*text, counts);
      else if (const auto* word = std::get_if<ControlWord>(&part))
        control(word->token, counts);
      else
        add_media(std::get<MediaReference>(part));
    }
    control(style_.end, counts);
    plain(style_.after_end, counts && options_.train_on_newline);
  }
  [[nodiscard]] std::vector<Segment> take() { return std::move(segments_); }

 private:
  void control(std::string_view token, bool counts) {
    segments_.push_back({.text = std::string(token), .is_control = true, .counts = counts});
  }
  void plain(std::string_view text, bool counts) {
    // Neighbouring text is tokenised together, as in the reference, unless only one of them counts.
    const bool joins =
        !segments_.empty() && !segments_.back().is_control && segments_.back().counts == counts;
    if (!joins && text.empty()) return;
    if (!joins) segments_.push_back({.counts = counts});
    segments_.back().text += text;
  }
  void add_media(const MediaReference& media) {
    const bool is_numbered = options_.numbers_sounds && media.modality == Modality::kAudio;
    if (is_numbered) plain(str("Audio ", ++sounds_, ": "), false);
    std::vector<double> times;
    if (media.modality == Modality::kVideo && clip_times_) times = clip_times_(media);
    bool is_next = false;
    for (const MediaPiece& piece : write_media(options_.media, media.modality, times)) {
      if (!piece.is_control) {
        plain(piece.text, false);
        continue;
      }
      control(piece.text, false);
      if (!piece.is_pad) continue;
      if (is_next)
        segments_.back().is_next_pad = true;
      else
        segments_.back().media = media;
      is_next = true;
    }
    if (is_numbered) plain("\n", false);
  }

  const Style& style_;
  const ChatOptions& options_;
  const ClipTimes& clip_times_;
  int sounds_ = 0;  // so far
  std::vector<Segment> segments_;
};

ChatTemplate::ChatTemplate(const Tokenizer& tokenizer, ChatOptions options)
    : tokenizer_(&tokenizer),
      options_(std::move(options)),
      style_(&style_of(tokenizer)),
      end_of_turn_(tokenizer.id_of(style_->end)) {
  for (const Modality modality : kMediaModalities)
    if (const std::optional<TokenId> pad = tokenizer.find(pad_of(options_.media, modality)))
      pads_.push_back(*pad);
  for (const std::string_view token : {style_->begin, style_->start, style_->after_role})
    if (!token.empty()) (void)tokenizer.id_of(token);
}

bool ChatTemplate::is_pad(TokenId token) const { return std::ranges::count(pads_, token) > 0; }

std::vector<ChatTemplate::Segment> ChatTemplate::list_segments(std::span<const Turn> turns,
                                                               ChatEnd end,
                                                               const ClipTimes& clip_times) const {
  Writer writer(*style_, options_, clip_times);
  const bool lacks_system = turns.empty() || turns.front().role != Role::kSystem;
  if (lacks_system && !(options_.system_prompt.empty() && style_->preamble.empty()))
    writer.add_turn({Role::kSystem, {options_.system_prompt}});
  for (const Turn& turn : turns) writer.add_turn(turn);
  if (end == ChatEnd::kGenerationPrompt) writer.begin_turn(Role::kAssistant);
  return writer.take();
}

std::string ChatTemplate::render(std::span<const Turn> turns, ChatEnd end) const {
  std::string text = {};
  for (const Segment& segment : list_segments(turns, end, {})) text += segment.text;
  return text;
}

EncodedChat ChatTemplate::encode(std::span<const Turn> turns, ChatEnd end,
                                 const ClipTimes& clip_times) const {
  EncodedChat chat;
  std::vector<bool> counts;
  for (const Segment& segment : list_segments(turns, end, clip_times)) {
    if (segment.is_control) {
      chat.tokens.push_back(tokenizer_->id_of(segment.text));
    } else {
      tokenizer_->encode_to(segment.text, SpecialText::kPlain, chat.tokens);
    }
    if (segment.media) {
      chat.media.push_back(*segment.media);
      chat.pads.push_back(1);
    }
    if (segment.is_next_pad) ++chat.pads.back();
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
               .expected = str(chat.media.size(), ", one for each medium"));
  EncodedChat expanded = {.tokens = {}, .targets = {}, .media = chat.media, .pads = chat.pads};
  std::size_t item = 0;
  int pads = 0;  // of the item so far
  for (std::size_t i = 0; i < chat.tokens.size(); ++i) {
    const TokenId token = chat.tokens[i];
    if (is_pad(token)) {
      const std::int64_t copies = merged_tokens[item] / chat.pads[item];
      TRIB_REQUIRE(copies > 0 && copies * chat.pads[item] == merged_tokens[item],
                   .what = "data: medium has no tokens", .where = str("item ", item),
                   .found = str(merged_tokens[item]),
                   .expected = str("a multiple of its ", chat.pads[item], " pads"));
      // Within an item a pad predicts the next pad, which is never learned.
      expanded.tokens.insert(expanded.tokens.end(), copies - 1, token);
      expanded.targets.insert(expanded.targets.end(), copies - 1, kIgnoredTarget);
      if (++pads == chat.pads[item]) ++item, pads = 0;
    }
    expanded.tokens.push_back(token);
    expanded.targets.push_back(chat.targets[i]);
  }
  TRIB_CHECK(item == chat.media.size(), .what = "data: chat has pads without an item",
             .found = str(item, " of ", chat.media.size()));
  return expanded;
}

}  // namespace tributary::data
