#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "data/sample.h"
#include "model/model.h"
#include "train/placement/run_lanes.h"

namespace tributary::train {

/// Samples of one bin as a model takes them, with what is to be predicted.
struct Microbatch {
  model::PackedBatch batch;
  at::Tensor targets;               // [tokens] i64, kIgnoredTarget where nothing is predicted
  std::vector<int> target_sources;  // [target tokens]: index in data.sources, in row order
  std::vector<int> pair_sources;    // [pairs]: likewise, where samples are pairs of answers
};

/// The modalities whose rows this rank's stages of the backbone take: those of inline encoders, on
/// the first stage.
[[nodiscard]] ModalitySet rows_taken_inline(const parallel::Layout& backbone, const RunLanes& run);

/// Lays samples back to back; media of other modalities than `with_rows` have only their grids.
///
/// shape:  tokens = sum over samples; a pair of answers is two sequences; media rows in order of
///         appearance
/// errors: Fault::kInput when placeholders and media of a sample do not match, and naming the
///         sample when a token or a target lies outside the vocabulary
/// cost:   one copy of each field
[[nodiscard]] Microbatch collate(std::span<const data::EncodedSample* const> samples,
                                 const config::ModelConfig& config, config::MropeMode mode,
                                 at::Device device,
                                 ModalitySet with_rows = ModalitySet(kMediaModalities));

/// Lays the media back to back that this rank encodes in a pass. `samples` are those with such
/// media, ids ascending; `first_id` is that of the first sample of the global batch. Only the first
/// stage of the encoder takes rows.
[[nodiscard]] model::EncoderInput collate_encoder_input(
    std::span<const data::EncodedSample> samples, std::span<const schedule::MediaItem> items,
    std::int64_t first_id, const parallel::Layout& encoder, at::Device device);

/// One token that predicts nothing: it keeps a rank in step with ranks that have samples left.
[[nodiscard]] Microbatch idle_microbatch();

}  // namespace tributary::train
