#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "model/model.h"

namespace tributary::model {

/// A batch of transformers as one pack: padding gone, samples back to back.
struct ProcessedBatch {
  PackedBatch pack;
  at::Tensor targets;  // [tokens] i64, -100 where nothing is predicted; undefined without labels
  at::Tensor places;   // [tokens] i64: of each token in the flattened [rows, columns] batch
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Packs what a Hugging Face processor gives: `input_ids`, `attention_mask`, `position_ids`,
/// `pixel_values`, `image_grid_thw`, `pixel_values_videos`, `video_grid_thw`, `second_per_grid_ts`,
/// `input_features`, `feature_attention_mask`, `labels`; `mm_token_type_ids` is ignored, since the
/// token ids say the same.
///
/// A row is a sample; tokens whose mask is 0 are left out, on either side. Without a mask, a row
/// whose positions (2-D, or row 0 of 4 rows) fall back or stand still holds several samples. The
/// first token of a sample is never a target. Positions are derived by `mode` when absent.
/// shape:  input_ids, attention_mask, labels [rows, columns]; position_ids the same, or with 3 or 4
///         in front: time, row, column, after the text positions if there are 4
/// errors: Fault::kInput naming the tensor: missing, unknown, of another shape or type
[[nodiscard]] ProcessedBatch pack_processed(const config::ModelConfig& config,
                                            const std::map<std::string, at::Tensor>& inputs,
                                            config::MropeMode mode);

}  // namespace tributary::model
