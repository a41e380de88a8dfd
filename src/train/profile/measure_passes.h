#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "config/profile.h"
#include "data/sample.h"
#include "train/profile/layer_times.h"
#include "train/session.h"

namespace tributary::train {

/// Microbatches that a measurement repeats: samples of the run's data, packed to one capacity.
struct ProfileBatch {
  Tokens capacity;
  std::vector<std::vector<const data::EncodedSample*>> microbatches;
};

/// Packs samples in their order into at most `most` microbatches, which none overfills; those that
/// do not fit in are left out.
[[nodiscard]] ProfileBatch fill_microbatches(std::span<const data::EncodedSample> samples,
                                             Tokens capacity, std::size_t most);

struct PassOptions {
  int warm_up = 2;
  int rounds = 15;  // that count; each goes through all microbatches
  // Before a round of so many tokens: what a run does beside its passes.
  std::function<void(Tokens)> before_round = {};
};

/// One size, measured: a point for each kind of layer, and the microbatches as a whole.
struct PassMeasurement {
  std::map<LayerKey, config::ProfilePoint> points;
  std::map<LayerKey, Bytes> parameters;  // of one layer of the kind, on this rank
  double sequence_tokens = 0;            // mean length of the samples
  config::MeasuredPass whole;            // without ranks, tp and threads
};

/// Runs the model's own executor over microbatches and times each layer at its boundary: forward
/// and backward as a run of one stage does them, weight gradients put off, layers run again. Ranks
/// of a run wait for each other, so times are those of the rank that was slowest in a round.
///
/// shape:  a model of one stage whose layout has a chain
/// collective: over the model's mesh and `world`, over whose ranks times are averaged
[[nodiscard]] PassMeasurement measure_passes(model::Model& model, const config::RunConfig& config,
                                             const ProfileBatch& batch, const mesh::Group& world,
                                             const PassOptions& options);

}  // namespace tributary::train
