#include "data/text/document_template.h"

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

void add_media(const Tokenizer& tokenizer, MediaForm form, const MediaReference& medium,
               const ClipTimes& clip_times, EncodedChat& document) {
  std::vector<double> times;
  if (medium.modality == Modality::kVideo && clip_times) times = clip_times(medium);
  int pads = 0;
  for (const MediaPiece& piece : write_media(form, medium.modality, times)) {
    if (piece.is_control)
      document.tokens.push_back(tokenizer.id_of(piece.text));
    else
      tokenizer.encode_to(piece.text, SpecialText::kPlain, document.tokens);
    if (piece.is_pad) ++pads;
  }
  document.media.push_back(medium);
  document.pads.push_back(pads);
}

}  // namespace

EncodedChat encode_document(const Tokenizer& tokenizer, std::span<const Part> parts, MediaForm form,
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
      add_media(tokenizer, form, std::get<MediaReference>(part), clip_times, document);
    }
    counts.resize(document.tokens.size(), text != nullptr);
  }
  document.tokens.push_back(end_of_text(tokenizer));
  counts.push_back(true);
  document.targets = list_targets(document.tokens, counts);
  return document;
}

}  // namespace tributary::data
