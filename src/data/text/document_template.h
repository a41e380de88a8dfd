#pragma once

#include <span>

#include "data/text/chat_template.h"

namespace tributary::data {

/// Encodes a document for pre-training: its text and media in their order and no template around
/// them, then the token that ends a text; before them the one that begins it, where there is one.
/// All but the media counts in the loss.
///
/// shape:  each image or clip has the pad tokens that it has in a chat
/// errors: Fault::kInput when the tokenizer has no token that ends a text, or none for the media
[[nodiscard]] EncodedChat encode_document(const Tokenizer& tokenizer, std::span<const Part> parts,
                                          MediaForm form, const ClipTimes& clip_times = {});

}  // namespace tributary::data
