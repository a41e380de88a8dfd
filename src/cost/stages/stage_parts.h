#pragma once

#include <memory>

#include "cost/stages/place_layers.h"
#include "cost/stages/stage_costs.h"

namespace tributary::cost {

/// What all stages of a plan have in common.
struct StageRules {
  std::shared_ptr<const CostSource> source = {};
  LayerExecution execution = {};
  config::TrainingPlan training = {};
  bool is_cut = false;                 // into pipeline stages
  PassShape full_microbatch = {};      // of the backbone
  CommunicationGroup plan_ranks = {};  // they add up the gradient norm; one rank: nothing to add

  /// Whether to gather and reduce once a step: a stage uses its layers in every microbatch.
  [[nodiscard]] bool reduces_once() const {
    return is_cut || execution.shard == config::Shard::kOptimizer;
  }
  [[nodiscard]] bool gathers_once() const {
    if (execution.shard == config::Shard::kOptimizer) return true;
    return execution.release == config::Release::kNever ||
           (execution.release == config::Release::kAuto && is_cut);
  }
  /// Bytes of a parameter, and of an activation that is sent.
  [[nodiscard]] double value_bytes() const { return source->value_bytes(); }
  [[nodiscard]] double gradient_bytes() const {
    return execution.reduce_dtype == config::ReduceDtype::kFloat32 ? 4 : value_bytes();
  }
};

/// One layer of a run on one rank.
[[nodiscard]] LayerCost cost_of_layer(const PlacedRun& run, const PlacedStage& stage,
                                      const PassShape& pass, bool needs_input_grad,
                                      const StageRules& rules);

/// The part of a microbatch's pass that one rank works on.
[[nodiscard]] PassShape on_one_rank(PassShape pass, const config::MeshShape& mesh);

[[nodiscard]] Nanoseconds collective_time(const StageRules& rules, config::CollectiveOp op,
                                          const CommunicationGroup& group, double bytes);

/// The part of a transfer that compute of this length does not hide, with the slowdown that the
/// overlap causes.
[[nodiscard]] Nanoseconds exposed(Nanoseconds transfer, Nanoseconds compute,
                                  const StageRules& rules);

/// Values of one layer on one tp rank, as they are gathered; expert values of one ep rank.
struct LayerValues {
  double dense = 0;    // parameters, cut over shard
  double experts = 0;  // parameters, cut over shard without ep

  [[nodiscard]] double all() const { return dense + experts; }
  [[nodiscard]] double of_rank(const config::MeshShape& mesh) const {
    const auto shards = static_cast<double>(mesh.dp_shard * mesh.cp * mesh.ulysses);
    return dense / shards + experts * static_cast<double>(mesh.ep) / shards;
  }
};
[[nodiscard]] LayerValues values_of(const PlacedRun& run, const config::MeshShape& mesh,
                                    const StageRules& rules);
/// Those of them that train: of a layer with adapters only these.
[[nodiscard]] LayerValues trained_values_of(const PlacedRun& run, const config::MeshShape& mesh,
                                            const StageRules& rules);
/// The values gathered for a use of the layer: a head may use the embedding's table.
[[nodiscard]] LayerValues used_values_of(const PlacedRun& run, const config::MeshShape& mesh,
                                         const StageRules& rules);
[[nodiscard]] Nanoseconds gather_time(const LayerValues& values, const PlacedStage& stage,
                                      const StageRules& rules);
[[nodiscard]] Nanoseconds reduce_time(const LayerValues& values, const PlacedStage& stage,
                                      const StageRules& rules);

/// Times and bytes of the passes of one microbatch.
[[nodiscard]] StageCost cost_of_passes(const PlacedStage& stage, const MicrobatchShape& shape,
                                       const StageRules& rules);

/// FLOPs of the passes of one microbatch, all ranks of a replica.
[[nodiscard]] StageFlops flops_of_passes(const PlacedStage& stage, const MicrobatchShape& shape,
                                         AttentionCore attention);

/// What each rank of a stage holds, and what it does once a step.
[[nodiscard]] StageState state_of(const PlacedStage& stage, const StageRules& rules);

}  // namespace tributary::cost
