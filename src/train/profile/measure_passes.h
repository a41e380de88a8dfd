#pragma once

#include <map>
#include <vector>

#include "config/artifact/profile.h"
#include "train/profile/crowded_rounds.h"

namespace tributary::train {

/// Bytes of the parameters of a layer.
struct LayerBytes {
  Bytes all = {};
  Bytes adapters = {};  // of them
};

/// One size, measured: a point for each kind of layer, and the microbatches as a whole.
struct PassMeasurement {
  std::map<LayerKey, config::ProfilePoint> points;          // of blocks without attention
  std::map<LayerKey, config::MeasuredAttention> attention;  // of blocks
  std::map<LayerKey, LayerBytes> parameters;  // of one layer of the kind, on this rank
  double sequence_tokens = 0;                 // mean length of the samples
  config::MeasuredPass whole;                 // without tp and threads
};

/// Runs the model's own executor over microbatches and times each layer at its boundary, and the
/// attention core within it: forward and backward as in a run of one stage, with weight gradients
/// put off, and with recompute. Ranks of a run wait for each other, so times are those of the rank
/// that was slowest in a round.
///
/// shape:  a model of one stage whose layout has a chain; one measurement for each crowd
/// collective: over the model's mesh, which is all of a crowd or a rank alone, and `world`
[[nodiscard]] std::vector<PassMeasurement> measure_passes(model::Model& model,
                                                          const config::RunConfig& config,
                                                          const ProfileBatch& batch,
                                                          const mesh::Group& world,
                                                          const PassOptions& options);

/// Times only attention cores, forward and backward, of every kind of layer that has one.
///
/// shape, collective: as measure_passes
[[nodiscard]] std::vector<std::map<LayerKey, config::MeasuredAttention>> measure_attention(
    model::Model& model, const config::RunConfig& config, const ProfileBatch& batch,
    const mesh::Group& world, const PassOptions& options);

}  // namespace tributary::train
