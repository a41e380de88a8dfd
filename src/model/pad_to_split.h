#pragma once

#include "model/model.h"

namespace tributary::model {

/// Appends padding tokens as a sample of their own, up to a multiple of the ranks over which the
/// layout splits tokens. They meet no other token and have no target.
[[nodiscard]] PackedBatch pad_to_split(const PackedBatch& batch, const parallel::Layout& layout);

}  // namespace tributary::model
