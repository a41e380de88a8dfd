#include <algorithm>
#include <cmath>

#include "cost/stages/stage_parts.h"

namespace tributary::cost {
namespace {

using config::CollectiveOp;
using config::LayerKind;
using config::LayerShape;
using config::RecomputePlan;

/// Communication inside one layer that its passes wait for.
struct InLine {
  Nanoseconds forward = {};
  Nanoseconds gradient = {};
  Nanoseconds mlp = {};  // the part of forward that repeating the MLP repeats
};

/// Keys and values go around a ring, each block while another is attended to; in backward their
/// float32 gradients follow them, and one more hop takes these to their owner.
///
/// source: parallel/sequence/ring_attention.h; docs/theory/parallelism.md, "Ring attention"
InLine ring_time(const LayerShape& layer, const LayerCost& cost, double tokens,
                 const PlacedStage& stage, const StageRules& rules) {
  const config::MeshShape& mesh = stage.mesh;
  const double steps = static_cast<double>(mesh.cp);
  const auto heads = static_cast<double>(std::max<std::int64_t>(
      1, std::max<std::int64_t>(1, layer.kv_heads / mesh.tp) / mesh.ulysses));
  // Each ring rank's row, with the heads of this rank.
  const double values =
      heads * static_cast<double>(layer.head_width + layer.value_head_width()) * tokens / steps;
  const auto hop = [&](double bytes) {
    return collective_time(rules, CollectiveOp::kSend, stage.groups.cp, bytes * values);
  };
  const Nanoseconds attend{cost.attention_forward.count / mesh.cp};
  const Nanoseconds differentiate{cost.attention_gradient.count / mesh.cp};
  const Nanoseconds block = hop(rules.value_bytes());
  const Nanoseconds gradient = hop(4);
  InLine time;
  time.forward = exposed(block, attend, rules) * (mesh.cp - 1);
  time.gradient = exposed(block, differentiate, rules) +
                  exposed(block + gradient, differentiate, rules) * (mesh.cp - 2) +
                  exposed(gradient, differentiate, rules) + gradient;
  return time;
}

/// Queries, keys and values exchange heads for rows, and the output is exchanged back.
///
/// source: docs/theory/parallelism.md, "Head exchange"
Nanoseconds head_exchange_time(const LayerShape& layer, double tokens_of_rank,
                               const PlacedStage& stage, const StageRules& rules) {
  const config::MeshShape& mesh = stage.mesh;
  const std::int64_t kv_heads =
      std::max(std::max<std::int64_t>(1, layer.kv_heads / mesh.tp), mesh.ulysses);
  const auto exchange = [&](std::int64_t heads, std::int64_t head_width) {
    return collective_time(
        rules, CollectiveOp::kAllToAll, stage.groups.ulysses,
        rules.value_bytes() * tokens_of_rank * static_cast<double>(heads * head_width));
  };
  const std::int64_t heads = layer.heads / mesh.tp;
  return exchange(heads, layer.head_width) + exchange(heads, layer.value_head_width()) +
         exchange(kv_heads, layer.head_width) + exchange(kv_heads, layer.value_head_width());
}

InLine in_line_time(const PlacedRun& run, const LayerCost& cost, const PassShape& whole,
                    const PlacedStage& stage, const StageRules& rules) {
  const config::MeshShape& mesh = stage.mesh;
  const LayerShape& layer = run.shape;
  const PassShape pass = on_one_rank(whole, mesh);
  InLine time;
  const Nanoseconds tp = collective_time(rules, CollectiveOp::kAllReduce, stage.groups.tp,
                                         static_cast<double>(cost.tp_all_reduce.count));
  time.forward = time.gradient = tp * cost.tp_all_reduces;
  if (!run.is_backbone && layer.kind == LayerKind::kProjector) {
    // Images are encoded whole; their features go to the ranks that hold their tokens.
    const Nanoseconds route =
        collective_time(rules, CollectiveOp::kAllToAll, stage.groups.sequence,
                        rules.value_bytes() * pass.tokens / static_cast<double>(layer.merge) *
                            static_cast<double>(layer.width));
    time.forward += route;
    time.gradient += route;
  }
  if (layer.kind != LayerKind::kBlock) return time;
  time.mlp = tp;
  if (layer.experts > 0) {
    // source: docs/theory/parallelism.md, "Exchange of experts"
    const Nanoseconds exchange =
        collective_time(rules, CollectiveOp::kAllToAll, stage.groups.expert,
                        rules.value_bytes() * pass.tokens *
                            static_cast<double>(layer.experts_per_token * layer.width) /
                            static_cast<double>(mesh.tp));
    time.mlp += exchange * 2;
    time.forward += exchange * 2;
    time.gradient += exchange * 2;
  }
  if (!run.is_backbone) return time;
  const Nanoseconds heads = head_exchange_time(layer, pass.tokens, stage, rules);
  time.forward += heads;
  time.gradient += heads;
  if (mesh.cp == 1) return time;
  const InLine ring = ring_time(layer, cost, whole.tokens, stage, rules);
  time.forward += ring.forward;
  time.gradient += ring.gradient;
  return time;
}

/// What a layer repeats in backward.
struct Again {
  Nanoseconds compute = {};
  Nanoseconds in_line = {};
  Bytes kept = {};  // activations kept until then
};

Again run_again(const PlacedRun& run, const LayerCost& cost, const InLine& in_line,
                const StageRules& rules) {
  Again again{.compute = cost.again(run.recompute), .kept = cost.kept(run.recompute)};
  if (run.recompute == RecomputePlan::kFull) again.in_line = in_line.forward;
  if (run.recompute == RecomputePlan::kAttention) again.in_line = in_line.forward - in_line.mlp;
  if (run.recompute == RecomputePlan::kSelective &&
      rules.execution.attention == AttentionCore::kFused)
    again.in_line = in_line.mlp;
  return again;
}

/// The exposed part of gathers and reductions around a sharded layer's passes. While a layer
/// computes, the next one is gathered and the previous one reduced; layers of a run are equal, so
/// each counts as hiding its own. Nothing hides the gather before the first layer of a pass.
struct ShardTime {
  Nanoseconds forward = {};
  Nanoseconds gradient = {};
};

ShardTime shard_time(const PlacedRun& run, const LayerCost& cost, Nanoseconds again,
                     const PlacedStage& stage, const StageRules& rules) {
  ShardTime time;
  Nanoseconds travels;
  const Nanoseconds backward = cost.input_gradient + cost.weight_gradient + again;
  if (!rules.gathers_once()) {
    const Nanoseconds gather = gather_time(used_values_of(run, stage.mesh, rules), stage, rules);
    const bool is_first = run.shape.kind == LayerKind::kEmbedding ||
                          run.shape.kind == LayerKind::kPatchEmbedding ||
                          run.shape.kind == LayerKind::kConvolution;
    time.forward = is_first ? gather : exposed(gather, cost.forward, rules);
    if (run.shape.kind == LayerKind::kHead)
      time.gradient = gather;
    else
      travels += gather;
  }
  if (!rules.reduces_once() && run.trains)
    travels += reduce_time(trained_values_of(run, stage.mesh, rules), stage, rules);
  time.gradient += exposed(travels, backward, rules);
  return time;
}

class PassCosts {
 public:
  PassCosts(const PlacedStage& stage, const StageRules& rules) : stage_(stage), rules_(rules) {}

  void add_run(const PlacedRun& run, const PassShape& whole) {
    const PassShape pass = on_one_rank(whole, stage_.mesh);
    add_layers(run, whole, pass, run.needs_input_grad, 1);
    if (run.layers > 1)
      add_layers(run, whole, pass, run.needs_input_grad_after_first, run.layers - 1);
    // Every tp rank of an encoder has all of its patches, and sends them.
    const double cut = run.is_backbone ? static_cast<double>(stage_.mesh.tp) : 1;
    const auto merge = static_cast<double>(std::max<std::int64_t>(1, run.shape.merge));
    cost_.boundary = {std::llround(rules_.value_bytes() * pass.tokens *
                                   static_cast<double>(run.shape.width) / merge / cut)};
  }
  [[nodiscard]] const StageCost& cost() const { return cost_; }

 private:
  /// Adds `count` equal layers of a run at once.
  void add_layers(const PlacedRun& run, const PassShape& whole, const PassShape& pass,
                  bool needs_input_grad, std::int64_t times) {
    const LayerCost each = cost_of_layer(run, stage_, pass, needs_input_grad, rules_);
    const InLine in_line = in_line_time(run, each, whole, stage_, rules_);
    const bool has_backward = run.trains || needs_input_grad;
    const Again again = run_again(run, each, in_line, rules_);
    const ShardTime shard = shard_time(run, each, again.compute, stage_, rules_);
    cost_.forward += each.forward * times;
    cost_.forward_exposed += (in_line.forward + shard.forward) * times;
    // The output of a layer exists until it is kept or dropped.
    const Bytes made =
        has_backward ? each.activation : cost_of_layer(run, stage_, pass, true, rules_).activation;
    const Bytes kept = has_backward ? again.kept : Bytes{};
    cost_.forward_peak = std::max(cost_.forward_peak, made - kept);
    if (has_backward) {
      cost_.input_gradient += (each.input_gradient + again.compute) * times;
      cost_.weight_gradient += each.weight_gradient * times;
      Nanoseconds waits = again.in_line + shard.gradient;
      if (each.input_gradient.count > 0) waits += in_line.gradient;
      cost_.gradient_exposed += waits * times;
      cost_.kept += kept * times;
      cost_.kept_after_input_gradient += (run.trains ? each.activation : Bytes{}) * times;
      cost_.backward_peak = std::max(cost_.backward_peak, each.activation - kept);
    }
    cost_.outside_grid = cost_.outside_grid || each.outside_grid;
  }

  const PlacedStage& stage_;
  const StageRules& rules_;
  StageCost cost_;
};

}  // namespace

StageCost cost_of_passes(const PlacedStage& stage, const MicrobatchShape& shape,
                         const StageRules& rules) {
  PassCosts costs(stage, rules);
  for (const PlacedRun& run : stage.runs) {
    const PassShape& whole = run.is_backbone ? shape.backbone : shape.of(run.media);
    if (whole.tokens > 0) costs.add_run(run, whole);
  }
  StageCost cost = costs.cost();
  const auto has_loss = [](const PlacedRun& run) { return run.shape.kind == LayerKind::kHead; };
  cost.forward += rules.source->microbatch(std::ranges::any_of(stage.runs, has_loss));
  return cost;
}

StageFlops flops_of_passes(const PlacedStage& stage, const MicrobatchShape& shape,
                           AttentionCore attention) {
  StageFlops flops;
  for (const PlacedRun& run : stage.runs) {
    const PassShape& whole = run.is_backbone ? shape.backbone : shape.of(run.media);
    if (whole.tokens <= 0) continue;
    const auto add = [&](bool needs_input_grad, std::int64_t layers) {
      const TrainingFlops each =
          count_training_flops(run.shape, whole,
                               {.trains = run.trains, .needs_input_grad = needs_input_grad},
                               run.recompute, attention) *
          static_cast<double>(layers);
      flops.all += each;
      if (!run.trains) flops.frozen += each;
    };
    add(run.needs_input_grad, 1);
    add(run.needs_input_grad_after_first, run.layers - 1);
  }
  return flops;
}

}  // namespace tributary::cost
