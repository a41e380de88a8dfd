#include "model/pad_to_split.h"

#include <ATen/ATen.h>

namespace tributary::model {

PackedBatch pad_to_split(const PackedBatch& batch, const parallel::Layout& layout) {
  if (!layout.splits_tokens()) return batch;
  const std::int64_t ranks = layout.tp().size();
  const std::int64_t tokens = batch.input_ids.size(0);
  const std::int64_t missing = (ranks - tokens % ranks) % ranks;
  if (missing == 0) return batch;
  PackedBatch padded = batch;
  padded.input_ids = at::constant_pad_nd(batch.input_ids, {0, missing});
  padded.position_ids = at::constant_pad_nd(batch.position_ids, {0, missing});
  padded.cu_seqlens.push_back(static_cast<std::int32_t>(tokens + missing));
  return padded;
}

}  // namespace tributary::model
