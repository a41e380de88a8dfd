#include "data/text/document_template.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.h"

namespace tributary::data {
namespace {

constexpr std::array<std::string_view, 4> kEnds{"<|endoftext|>", "<|end_of_text|>", "</s>",
                                                "<eos>"};

TokenId end_of_text(const Tokenizer& tokenizer) {
  for (const std::string_view name : kEnds)
    if (const std::optional<TokenId> token = tokenizer.find(name)) return *token;
  TRIB_RAISE(Fault::kInput, .what = "data: tokenizer has no token that ends a text",
             .expected = str("one of ", kEnds[0], ", ", kEnds[1], ", ", kEnds[2], ", ", kEnds[3]),
             .fix = "train on chats, or name a model whose tokenizer has one");
}

void add_pad(const Tokenizer& tokenizer, const MediaReference& medium, EncodedChat& document) {
  const bool is_image = medium.modality == Modality::kImage;
  document.tokens.push_back(tokenizer.id_of("<|vision_start|>"));
  document.tokens.push_back(tokenizer.id_of(is_image ? "<|image_pad|>" : "<|video_pad|>"));
  document.tokens.push_back(tokenizer.id_of("<|vision_end|>"));
}

void add_media(const Tokenizer& tokenizer, const MediaReference& medium,
               const ClipTimes& clip_times, EncodedChat& document) {
  std::vector<double> times;
  if (medium.modality == Modality::kVideo && clip_times) times = clip_times(medium);
  if (times.empty()) add_pad(tokenizer, medium, document);
  for (const double seconds : times) {
    tokenizer.encode_to(text_of_time(seconds), SpecialText::kPlain, document.tokens);
    add_pad(tokenizer, medium, document);
  }
  document.media.push_back(medium);
  document.pads.push_back(std::max(1, static_cast<int>(times.size())));
}

}  // namespace

EncodedChat encode_document(const Tokenizer& tokenizer, std::span<const Part> parts,
                            const ClipTimes& clip_times) {
  EncodedChat document;
  std::vector<bool> counts;
  if (const std::optional<TokenId> begin = tokenizer.find("<|begin_of_text|>")) {
    document.tokens.push_back(*begin);
    counts.push_back(false);
  }
  for (const Part& part : parts) {
    const auto* text = std::get_if<std::string>(&part);
    if (text != nullptr) {
      tokenizer.encode_to(*text, SpecialText::kPlain, document.tokens);
    } else {
      add_media(tokenizer, std::get<MediaReference>(part), clip_times, document);
    }
    counts.resize(document.tokens.size(), text != nullptr);
  }
  document.tokens.push_back(end_of_text(tokenizer));
  counts.push_back(true);
  document.targets = list_targets(document.tokens, counts);
  return document;
}

}  // namespace tributary::data
