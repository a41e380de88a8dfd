#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "config/run/run_config.h"
#include "data/sample.h"
#include "mesh/mesh.h"
#include "model/model.h"
#include "train/profile/layer_times.h"
#include "train/profile/live_bytes.h"
#include "train/profile/pass_clock.h"

namespace tributary::train {

/// Microbatches that a measurement repeats, packed to one capacity.
struct ProfileBatch {
  Tokens capacity;
  std::vector<std::vector<const data::EncodedSample*>> microbatches;
};

/// Packs samples in their order into at most `max` microbatches, which none overfills; those that
/// do not fit in are left out.
[[nodiscard]] ProfileBatch fill_microbatches(std::span<const data::EncodedSample> samples,
                                             Tokens capacity, std::size_t max);

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

/// How microbatches run: as in a run of one stage; with weight gradients put off and attention
/// cores timed; with layers that run again.
enum class Mode { kPlain, kApart, kRecomputed };

/// What the microbatches that use a layer have for it, together.
struct LayerWork {
  double microbatches = 0;
  double items = 0;  // tokens or patches
  double pairs = 0;  // of items that attend to each other in one such layer
};

/// Uses of the layers, summed over the microbatches of one round.
struct Round {
  LayerUses uses;
  std::map<LayerKey, LayerWork> work;
  double forward = 0;  // [s]
  double backward = 0;
};

/// The work of a microbatch for a kind of layer. Windows count as full ones, as
/// cost::attended_pairs counts them.
[[nodiscard]] LayerWork work_of(std::span<const data::EncodedSample* const> samples,
                                const LayerKey& key, const config::ModelConfig& config);

/// Repeats the microbatches of a batch, the crowds in turns.
class CrowdedRounds {
 public:
  /// owns: nothing; all of it outlives this
  CrowdedRounds(model::Model& model, const config::RunConfig& config, const ProfileBatch& batch,
                const mesh::Group& world, const PassOptions& options);

  /// Ranks outside of a crowd use no layer in its rounds.
  /// shape: returns [crowds][rounds]
  /// collective: over the model's mesh and the world
  [[nodiscard]] std::vector<std::vector<Round>> time(Mode mode, int rounds);
  /// One round in which all ranks count bytes.
  /// collective: as above
  [[nodiscard]] Round count_bytes(Mode mode);

 private:
  [[nodiscard]] Round run_once(const Crowd& crowd, Mode mode);

  model::Model& model_;
  const config::RunConfig& config_;
  const ProfileBatch& batch_;
  const mesh::Group& world_;
  const PassOptions& options_;
  LiveBytes bytes_;
  PassClock clock_;
  Tokens tokens_;
};

/// The mean over a crowd of a value that is 0 on the other ranks: if one rank is slower, all of
/// them are as slow in the end.
/// collective: over `world`
[[nodiscard]] double mean_over(const mesh::Group& world, const Crowd& crowd, double value);

/// How much longer than the mean of the ranks the slowest of them takes for a round.
/// collective: over `world`
[[nodiscard]] double slowest_over_mean(const mesh::Group& world, const Crowd& crowd,
                                       std::span<const Round> rounds);

}  // namespace tributary::train
