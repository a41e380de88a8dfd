#pragma once

#include "data/record/record_fields.h"

namespace tributary::data {

/// Whether the record holds a better and a worse answer.
[[nodiscard]] bool has_preference(const Json& root);
/// Reads a prompt with a chosen and a rejected answer: into `turns` and `rejected`, which begin
/// with the same turns, of which none is learned. errors: Refused
void read_preference(const Json& root, const RecordOptions& options, Record& record);

}  // namespace tributary::data
