#pragma once

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

/// What a search may choose; a narrow space for tests and questions.
struct PlanSpace {
  std::vector<config::PipelineOrder> schedules = {
      config::PipelineOrder::k1f1b, config::PipelineOrder::kInterleaved,
      config::PipelineOrder::kZbH1, config::PipelineOrder::kZbV, config::PipelineOrder::kVHalf};
  std::vector<std::int64_t> chunks = {2, 4};  // virtual stages of a rank, of the interleaved order
  std::vector<config::RecomputePlan> recompute = {config::RecomputePlan::kNone,
                                                  config::RecomputePlan::kSelective,
                                                  config::RecomputePlan::kFull};
  std::vector<config::Placement> placements = {config::Placement::kInline,
                                               config::Placement::kColocated,  // one at most
                                               config::Placement::kSeparate};  // of encoders
  bool replicates = true;  // whole copies of a module over its data-parallel ranks
  bool shards = true;      // parameters cut over them, within a node or over all
  std::int64_t most_tp = 64;
  std::int64_t most_replicas = 1 << 20;  // dp of one module
  std::int64_t most_cp = 8;
  std::int64_t most_ulysses = 8;
  std::int64_t long_sample = 8192;  // mean tokens from which on cp and ulysses cut sequences
  std::int64_t most_ep = 64;
  std::int64_t most_stages = 256;  // pp of one module
  std::int64_t most_microbatches = 4096;
  bool runnable = false;  // plans that the trainer runs, alone
};

/// A model to be placed on devices, and the batches by which plans are judged.
struct PlanningProblem {
  config::ModuleGraph model;
  config::Cluster cluster;
  std::int64_t devices = 1;  // of the cluster, the first ones
  std::vector<std::vector<simulate::SampleSize>>
      batches;                           // [batches][global samples], all of one length
  std::vector<std::string> frozen = {};  // modules
  cost::LayerExecution execution = {};
  PlanSpace space = {};
  /// Costs that were measured with as many ranks as `devices`: plans use all of them. None: those
  /// of the cluster's device and links.
  std::shared_ptr<const cost::CostSource> measured = {};
  std::int64_t threads = 0;    // that a rank computes with where ranks share cores; 0: a part each
  Tokens longest_sample = {};  // of the data; 0: of the batches

  [[nodiscard]] std::shared_ptr<const cost::CostSource> costs() const;
  [[nodiscard]] std::int64_t global_samples() const { return std::ssize(batches.front()); }
  [[nodiscard]] bool is_frozen(const std::string& module) const;
  /// What a plan may hold on a device.
  [[nodiscard]] Bytes memory() const { return cluster.device.memory - cluster.device.reserve; }
  /// Whether so many ranks have more threads than a machine of them has cores.
  [[nodiscard]] bool shares_cores(std::int64_t ranks) const;
  /// Threads of so many ranks for each core; 1 where all have one.
  [[nodiscard]] double threads_per_core(std::int64_t ranks) const;
};

/// errors: Fault::kInput naming what cannot be planned: no backbone, a module behind it, no batch,
///         more devices than the cluster has, a placement that has no action lists
void check_problem(const PlanningProblem& problem);

/// Modules in front of the backbone that may have ranks of their own: those with blocks, in the
/// order of the model. All others run inside the first backbone stage.
[[nodiscard]] std::vector<const config::ModuleNode*> encoders_of(const PlanningProblem& problem);

/// The mean batch as one microbatch, and that dealt evenly over so many.
[[nodiscard]] cost::MicrobatchShape mean_batch(const PlanningProblem& problem);
[[nodiscard]] cost::MicrobatchShape part_of(const cost::MicrobatchShape& batch,
                                            double microbatches);

/// Every sample of every batch is of one size, so that replicas can have equal inputs.
[[nodiscard]] bool has_equal_samples(const PlanningProblem& problem);

/// Batches of equal samples are all alike: one.
[[nodiscard]] std::size_t different_batches(const PlanningProblem& problem);

}  // namespace tributary::plan
