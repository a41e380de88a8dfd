#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "data/sample.h"
#include "mesh/health/health.h"
#include "model/model.h"
#include "schedule/packed_bins.h"
#include "train/executor/collate.h"
#include "train/executor/executor.h"
#include "train/executor/step_sums.h"
#include "train/flow/flow.h"
#include "train/metrics/step_metrics.h"
#include "train/optimizer/weight_copy.h"

namespace tributary::train {

/// What one pass over a global batch gave this rank; the gradients lie in the units' shards.
/// Members `of all ranks` are of this rank until the slots of name_slots() are shared.
struct BatchResult {
  std::int64_t targets = 0;           // or pairs, of the global batch; 0: nothing was computed
  bool refused = false;               // by some rank; nothing was computed
  double loss = 0;                    // of all ranks: mean over the targets; NaN without any
  std::vector<SourceLoss> by_source;  // of all ranks
  PairSums pairs;                     // of all ranks
  PhaseSeconds seconds;               // data (collating), forward, backward
  PipelineUse pipeline;               // of all ranks
  double busy = 0;                    // [s] of passes, of all ranks
  double wall = 0;                    // [s] from the first action to the last, the longest
  std::vector<PassTimes> passes;      // of this rank
  double began = 0;                   // [s] of now_seconds(): all ranks knew the step
  double reduced = 0;                 // likewise: this rank's gradients were complete
  std::int64_t attention_rows = 0;    // of the backbone's attention, padding included
  /// [s] Of each pass of a lane of this rank, without waits inside it.
  std::map<int, std::vector<double>> of_lanes;
  std::unique_ptr<FeatureExchange> ahead = {};  // features of the step after; null: none were made
};

/// What is compared in a step on pairs of answers.
struct PairObjective {
  config::ObjectiveSection section;
  WeightCopy* reference = nullptr;  // of the model's parameters
};

/// The step after this one, whose media a module ahead encodes meanwhile.
struct NextStep {
  std::int64_t microbatches = 0;     // of this rank's replica
  bool refused = false;              // the data of this rank are beyond a limit
  const StepMedia* media = nullptr;  // it must outlive the features
};

struct GradientOptions {
  config::MropeMode mrope = config::MropeMode::kOfficial;
  at::Device device = at::kCPU;
  std::int64_t max_logits = model::kMaxLogits;  // of one chunk of the head (sum_loss)
  int sources = 1;                              // number of data.sources
  const PairObjective* pairs = nullptr;         // null: the mean cross entropy of the targets
  bool refused = false;              // the data of this rank are beyond a limit, it has no samples
  std::int64_t plan = 0;             // fingerprint of the step plan, of 62 bits
  const RunLanes* lanes = nullptr;   // of this rank; null: the model lies on one stage
  const StepMedia* media = nullptr;  // of the step, where encoders have meshes of their own
  Flow* flow = nullptr;              // null: no encoders beside the run
  FeatureExchange* ready = nullptr;  // features of a module ahead; null: encode them first
  const NextStep* next = nullptr;    // null: no step comes after this one, or no module is ahead
  std::function<void(mesh::Section)> on_section = {};  // before each pass
  std::function<void()> on_action = {};                // before each action of this rank
};

/// Sets the gradients to those of the mean loss over all target tokens of the global batch, or over
/// all of its pairs, whatever ranks and microbatches it is cut into. A batch without target tokens
/// computes nothing and leaves the gradients as they were. For pairs the reference runs all
/// forwards before.
///
/// shape:  `samples` are those of this rank's replica, the bins of `microbatches` hold indices of
///         them; both may be empty where other replicas have some
/// errors: Fault::kInput when ranks have other samples than their replica or another plan
/// collective: over all ranks of the model's mesh, which run equally many microbatches: a replica
///         with fewer runs idle ones. Before the first pass there is one of numbers of the host
[[nodiscard]] BatchResult accumulate_gradients(model::Model& model,
                                               std::span<const data::EncodedSample> samples,
                                               const schedule::PackedBins& microbatches,
                                               const GradientOptions& options);

/// Names as slots the members of the result that are to be of all ranks.
void name_slots(BatchResult& result, const model::Model& model, const RunLanes& run,
                StepSums& sums);

/// Adds up the losses, and the figures of pairs, of the ranks whose `counts` is set.
/// collective: over the group
void add_over_ranks(const mesh::Group& world, bool counts, std::vector<SourceLoss>& by_source,
                    std::vector<PairSums>& pairs);

}  // namespace tributary::train
