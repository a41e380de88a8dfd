#pragma once

#include "data/record/record_fields.h"

namespace tributary::data {

/// Whether the record has a text and no picture.
[[nodiscard]] bool has_text(const Json& root);
/// Reads `text` as a document. errors: Refused
void read_text(const Json& root, const RecordOptions& options, Record& record);

/// Whether the record has texts and pictures in one order: `texts` and `images` (OBELICS),
/// `text_list` and `image_info` (MMC4), or a `text` in which `<image>` stands for pictures.
[[nodiscard]] bool has_interleaved(const Json& root);
/// Reads them as a document. errors: Refused
void read_interleaved(const Json& root, const RecordOptions& options, Record& record);

}  // namespace tributary::data
