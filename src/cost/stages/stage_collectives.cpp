#include <algorithm>
#include <cmath>

#include "cost/adapter_cost.h"
#include "cost/stages/stage_parts.h"

namespace tributary::cost {

using config::CollectiveOp;
using config::LayerKind;

PassShape on_one_rank(PassShape pass, const config::MeshShape& mesh) {
  const double cut = static_cast<double>(mesh.cp * mesh.ulysses);
  pass.tokens /= cut;
  pass.squared_tokens /= cut;  // each rank has its part of the queries, and all keys
  return pass;
}

LayerCost cost_of_layer(const PlacedRun& run, const PlacedStage& stage, const PassShape& pass,
                        bool needs_input_grad, const StageRules& rules) {
  const config::MeshShape& mesh = stage.mesh;
  return rules.source->layer(
      run.module, run.shape, pass,
      {.tp = mesh.tp,
       .ep = run.shape.experts > 0 ? mesh.ep : 1,
       // Every tp rank of an encoder has all of its patches.
       .sequence_parallel = run.is_backbone && rules.execution.sequence_parallel && mesh.tp > 1,
       .attention = rules.execution.attention},
      {.trains = run.trains, .needs_input_grad = needs_input_grad});
}

Nanoseconds collective_time(const StageRules& rules, CollectiveOp op,
                            const CommunicationGroup& group, double bytes) {
  const Bytes whole{std::llround(bytes)};
  if (group.ranks <= 1 || whole.count == 0) return {};
  return rules.source->collective(op, group, whole);
}

Nanoseconds exposed(Nanoseconds transfer, Nanoseconds compute, const StageRules& rules) {
  // While the transfer runs, compute does 1 / slowdown of its work.
  const double overlap_slowdown = rules.source->overlap_slowdown();
  const double slowed =
      static_cast<double>(transfer.count) * (1 - 1 / std::max(1.0, overlap_slowdown));
  return std::max(transfer - compute, Nanoseconds{std::llround(slowed)});
}

LayerValues values_of(const PlacedRun& run, const config::MeshShape& mesh,
                      const StageRules& rules) {
  const LayerCost cost =
      cost_of_layer(run, {.runs = {}, .mesh = mesh, .groups = {}}, {}, false, rules);
  const double experts = static_cast<double>(cost.expert_parameters.count) / rules.value_bytes();
  return {.dense = static_cast<double>(cost.parameters.count) / rules.value_bytes() - experts,
          .experts = experts};
}

LayerValues trained_values_of(const PlacedRun& run, const config::MeshShape& mesh,
                              const StageRules& rules) {
  if (!run.trains) return {};
  if (run.shape.adapter.maps == 0) return values_of(run, mesh, rules);
  return {.dense = adapters_of_rank(run.shape.adapter, mesh.tp)};
}

LayerValues used_values_of(const PlacedRun& run, const config::MeshShape& mesh,
                           const StageRules& rules) {
  if (run.table != TiedTable::kShared || run.shape.kind != LayerKind::kHead)
    return values_of(run, mesh, rules);
  PlacedRun with_table = run;
  with_table.shape.tied = false;
  return values_of(with_table, mesh, rules);
}

namespace {

/// One collective of `bytes` bytes over the ranks that share a layer's values.
Nanoseconds over_shards(CollectiveOp op, const LayerValues& values, double bytes,
                        const PlacedStage& stage, const StageRules& rules) {
  return collective_time(rules, op, stage.groups.shard, bytes * values.dense) +
         collective_time(rules, op, stage.groups.expert_shard, bytes * values.experts);
}

}  // namespace

Nanoseconds gather_time(const LayerValues& values, const PlacedStage& stage,
                        const StageRules& rules) {
  return over_shards(CollectiveOp::kAllGather, values, rules.value_bytes(), stage, rules);
}

Nanoseconds reduce_time(const LayerValues& values, const PlacedStage& stage,
                        const StageRules& rules) {
  return over_shards(CollectiveOp::kReduceScatter, values, rules.gradient_bytes(), stage, rules);
}

}  // namespace tributary::cost
