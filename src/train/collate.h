#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/model_config.h"
#include "config/run_config.h"
#include "data/sample.h"
#include "model/model.h"

namespace tributary::train {

/// Samples of one bin as a model takes them, with what is to be predicted.
struct Microbatch {
  model::PackedBatch batch;
  at::Tensor targets;               // [tokens] i64, kIgnoredTarget where nothing is predicted
  std::vector<int> target_sources;  // [target tokens]: index in data.sources, in row order
};

/// What of the samples a rank needs: a later pipeline stage reads no pixels.
enum class Fields { kAll, kWithoutPixels };

/// Lays samples back to back.
///
/// shape:  tokens = sum over samples; media rows in order of appearance
/// errors: Fault::kInput when placeholders and media of a sample do not match
/// cost:   one copy of each field
[[nodiscard]] Microbatch collate(std::span<const data::EncodedSample* const> samples,
                                 const config::ModelConfig& config, config::MropeMode mode,
                                 at::Device device, Fields fields = Fields::kAll);

}  // namespace tributary::train
