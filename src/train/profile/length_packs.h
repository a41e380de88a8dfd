#pragma once

#include <span>
#include <vector>

#include "config/family/model_config.h"
#include "core/units.h"
#include "data/sample.h"

namespace tributary::train {

/// Samples of one microbatch.
using SamplePack = std::vector<data::EncodedSample>;

/// Makes packs of equally many tokens in sequences of one length each: the capacity, its half, its
/// quarter, down to 16 tokens. What they say does not matter, only how long it is.
///
/// shape: at most 8 packs, the longest sequences first
[[nodiscard]] std::vector<SamplePack> make_text_packs(const config::ModelConfig& config,
                                                      Tokens capacity);

/// Makes packs of equal items, one in each sample, for each encoder: images as large as the largest
/// frame of `samples`, half of that, and so on; likewise sounds. A pack has as many input rows as
/// the most that a microbatch of `samples` has, where the capacity allows it. An encoder without
/// items in the samples has no packs.
///
/// shape: at most 6 packs of an encoder, the largest items first
[[nodiscard]] std::vector<SamplePack> make_item_packs(const config::ModelConfig& config,
                                                      Tokens capacity,
                                                      std::span<const data::EncodedSample> samples);

}  // namespace tributary::train
