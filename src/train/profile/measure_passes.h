#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "config/artifact/profile.h"
#include "data/sample.h"
#include "train/profile/layer_times.h"
#include "train/start/session.h"

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

/// The first `ranks` ranks, which work at once while the others wait without a core.
struct Crowd {
  int ranks = 1;
  /// Whether they have more threads than cores: then the CPU time of each counts and not the clock,
  /// which runs on while another has the core.
  bool shares_cores = false;
};

struct PassOptions {
  std::vector<Crowd> crowds = {};  // in turns, so that what slows the machine slows all alike
  int warm_up = 1;
  int rounds = 13;  // after the warm-up; each goes through all microbatches
  // Called before a round of `Tokens` in a crowd: does what a run does beside its passes.
  std::function<void(const Crowd&, Tokens)> before_round = {};
};

/// One size, measured: a point for each kind of layer, and the microbatches as a whole.
struct PassMeasurement {
  std::map<LayerKey, config::ProfilePoint> points;
  std::map<LayerKey, Bytes> parameters;  // of one layer of the kind, on this rank
  double sequence_tokens = 0;            // mean length of the samples
  config::MeasuredPass whole;            // without tp and threads
};

/// Runs the model's own executor over microbatches and times each layer at its boundary: forward
/// and backward as in a run of one stage, with weight gradients put off, and with recompute. Ranks
/// of a run wait for each other, so times are those of the rank that was slowest in a round.
///
/// shape:  a model of one stage whose layout has a chain; one measurement for each crowd
/// collective: over the model's mesh, which is all of a crowd or a rank alone, and `world`
[[nodiscard]] std::vector<PassMeasurement> measure_passes(model::Model& model,
                                                          const config::RunConfig& config,
                                                          const ProfileBatch& batch,
                                                          const mesh::Group& world,
                                                          const PassOptions& options);

}  // namespace tributary::train
