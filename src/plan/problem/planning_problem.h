#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"
#include "cost/stages/stage_costs.h"
#include "simulate/samples/deal_samples.h"

namespace tributary::plan {

/// What a search may choose; tests and questions narrow it.
struct PlanSpace {
  std::vector<config::PipelineOrder> schedules = {
      config::PipelineOrder::k1f1b, config::PipelineOrder::kInterleaved,
      config::PipelineOrder::kZbH1, config::PipelineOrder::kZbV, config::PipelineOrder::kVHalf};
  std::vector<std::int64_t> chunks = {2, 4};  // virtual stages of a rank, for the interleaved order
  std::vector<config::RecomputePlan> recompute = {config::RecomputePlan::kNone,
                                                  config::RecomputePlan::kSelective,
                                                  config::RecomputePlan::kFull};
  std::vector<config::Placement> placements = {config::Placement::kInline,
                                               config::Placement::kColocated,  // at most one
                                               config::Placement::kSeparate};  // of encoders
  bool replicates = true;  // whole copies of a module on its data-parallel ranks
  bool shards = true;      // parameters sharded over them, within a node or over all
  std::int64_t max_tp = 64;
  std::int64_t max_replicas = 1 << 20;  // max dp of one module
  std::int64_t max_cp = 8;
  std::int64_t max_ulysses = 8;
  std::int64_t long_sample = 8192;  // min mean tokens at which cp and ulysses are tried
  std::int64_t max_ep = 64;
  std::int64_t max_stages = 256;  // max pp of one module
  std::int64_t max_microbatches = 4096;
};

/// A model to place on devices, and the batches that plans are judged by.
struct PlanningProblem {
  config::ModuleGraph model;
  config::Cluster cluster;
  std::int64_t devices = 1;  // the first ones of the cluster
  std::vector<std::vector<simulate::SampleSize>>
      batches;                           // [batches][global samples], all of one length
  std::vector<std::string> frozen = {};  // modules
  config::TrainingPlan training = {};    // of the run; with adapters the layers of `model` say so
  cost::LayerExecution execution = {};
  PlanSpace space = {};
  /// Costs measured with `devices` ranks, all of which a plan then uses. Null: the costs follow
  /// from the cluster's device and links.
  std::shared_ptr<const cost::CostSource> measured = {};
  std::int64_t threads = 0;    // of a rank where ranks share cores; 0: an equal part
  Tokens longest_sample = {};  // of the data; 0: of the batches

  [[nodiscard]] std::shared_ptr<const cost::CostSource> costs() const;
  [[nodiscard]] std::int64_t global_samples() const { return std::ssize(batches.front()); }
  [[nodiscard]] bool is_frozen(const std::string& module) const;
  [[nodiscard]] config::TrainMode mode_of(const std::string& module) const;
  /// The max memory of a plan on a device.
  [[nodiscard]] Bytes memory() const { return cluster.device.memory - cluster.device.reserve; }
  /// Whether `ranks` ranks have more threads than a machine of them has cores.
  [[nodiscard]] bool shares_cores(std::int64_t ranks) const;
  /// Threads for each core with `ranks` ranks; 1 where every thread has a core.
  [[nodiscard]] double threads_per_core(std::int64_t ranks) const;
};

/// errors: Fault::kInput naming what cannot be planned: no backbone, a module behind it, no batch,
///         more devices than the cluster has, a placement that has no action lists
void check_problem(const PlanningProblem& problem);

/// Modules in front of the backbone that may have ranks of their own: those with blocks, in the
/// order of the model. All others run inside the first stage of the backbone.
[[nodiscard]] std::vector<const config::ModuleNode*> encoders_of(const PlanningProblem& problem);

/// The mean batch as one microbatch, and an even share of it for `microbatches` of them.
[[nodiscard]] cost::MicrobatchShape mean_batch(const PlanningProblem& problem);
[[nodiscard]] cost::MicrobatchShape part_of(const cost::MicrobatchShape& batch,
                                            double microbatches);

/// Whether all samples of all batches have one size, so that replicas can have equal inputs.
[[nodiscard]] bool has_equal_samples(const PlanningProblem& problem);

/// The number of different batches: 1 where samples are equal.
[[nodiscard]] std::size_t different_batches(const PlanningProblem& problem);

/// How much the samples of a problem differ.
struct SampleSpread {
  explicit SampleSpread(const PlanningProblem& problem);

  /// The largest sample over the mean one: in tokens, or in images and sound together.
  double largest = 1;
  /// The same in tokens or in one medium.
  std::array<double, cost::kAllMedia.size()> largest_of = {};
  /// Media that some samples have and others lack.
  std::vector<cost::Media> idle = {};
};

/// The longest sample of a batch, and the samples with the most of each medium.
[[nodiscard]] std::vector<simulate::SampleSize> largest_samples(
    const std::vector<simulate::SampleSize>& batch);

}  // namespace tributary::plan
