#pragma once

#include <span>

#include "core/json.h"
#include "core/sample_shape.h"
#include "schedule/packed_bins.h"

namespace tributary::train {

/// What the microbatches of one replica hold in a step, for a simulation of it: a line of
/// shapes.jsonl.
///
/// shape: `microbatches` hold places in `samples`; each becomes [tokens, sum of squared lengths of
///        the samples, samples, patches, sum of squared patches of images and frames, images and
///        frames]
[[nodiscard]] Json describe_shapes(std::int64_t step, std::span<const SampleShape> samples,
                                   const schedule::PackedBins& microbatches);

}  // namespace tributary::train
