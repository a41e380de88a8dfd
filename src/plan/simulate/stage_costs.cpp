#include "plan/simulate/stage_costs.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tributary::plan {
namespace {

using config::CollectiveOp;
using config::LayerKind;
using config::RecomputePlan;

constexpr double kBytesPerValue = 2;  // of an activation that travels

PassShape on_one_rank(PassShape pass, const config::MeshShape& mesh) {
  const double cut = static_cast<double>(mesh.cp * mesh.ulysses);
  pass.tokens /= cut;
  pass.squared_tokens /= cut;  // each rank has its part of the queries, with all keys
  return pass;
}

Bytes part(Bytes bytes, double share) {
  return {std::llround(static_cast<double>(bytes.count) * share)};
}

bool is_before_blocks(LayerKind kind) {
  return kind == LayerKind::kEmbedding || kind == LayerKind::kPatchEmbedding ||
         kind == LayerKind::kConvolution;
}

std::int64_t blocks_of(const config::ModuleNode& node) {
  std::int64_t blocks = 0;
  for (const config::LayerRun& run : node.layers)
    if (run.shape.kind == LayerKind::kBlock) blocks += run.layers;
  return blocks;
}

/// The inline modules of a plan, each after those that feed it; of equals the first.
std::vector<const config::ModuleNode*> inline_modules(const config::Plan& plan,
                                                      const config::ModuleGraph& model) {
  std::vector<const config::ModuleNode*> left;
  for (const config::ModuleNode& node : model.modules) {
    const config::ModulePlan* of = plan.find(node.name);
    if (of != nullptr && of->placement == config::Placement::kInline) left.push_back(&node);
  }
  const auto is_fed = [&](const config::ModuleNode* node) {
    return std::any_of(model.edges.begin(), model.edges.end(), [&](const config::ModuleEdge& edge) {
      return edge.to == node->name && std::any_of(left.begin(), left.end(), [&](const auto* other) {
               return other->name == edge.from;
             });
    });
  };
  std::vector<const config::ModuleNode*> ordered;
  while (!left.empty()) {
    const auto next = std::find_if_not(left.begin(), left.end(), is_fed);
    TRIB_REQUIRE(next != left.end(), .what = "plan: modules of the model feed each other",
                 .where = str("model ", model.name), .found = left.front()->name,
                 .expected = "edges without a circle");
    ordered.push_back(*next);
    left.erase(next);
  }
  return ordered;
}

}  // namespace

LayerStageCosts::LayerStageCosts(const config::Plan& plan, const config::ModuleGraph& model,
                                 const config::Cluster& cluster, const schedule::Pipeline& pipeline,
                                 const LayerExecution& execution)
    : cluster_(cluster), execution_(execution) {
  place_layers(plan, model, pipeline);
  find_training(pipeline);
}

LayerPlacement LayerStageCosts::placement_of(const config::MeshShape& mesh) const {
  return {.tp = mesh.tp,
          .sequence_parallel = execution_.sequence_parallel && mesh.tp > 1,
          .attention = execution_.attention,
          .optimizer_shards = mesh.dp_shard};
}

void LayerStageCosts::place_layers(const config::Plan& plan, const config::ModuleGraph& model,
                                   const schedule::Pipeline& pipeline) {
  const auto node_of = [&model](const std::string& name) -> const config::ModuleNode& {
    const config::ModuleNode* node = model.find(name);
    TRIB_REQUIRE(node != nullptr, .what = "plan: model has no such module",
                 .where = str("modules.", name), .found = str("model ", model.name),
                 .expected = "a module of the model");
    return *node;
  };
  for (const schedule::PipelineModule& chain : pipeline.modules) {
    const config::ModulePlan* of = plan.find(chain.name);
    TRIB_CHECK(of != nullptr, .what = "plan: pipeline has a module that the plan has not",
               .found = chain.name);
    std::vector<Stage>& stages =
        stages_.emplace_back(static_cast<std::size_t>(chain.virtual_stages()));
    for (Stage& stage : stages) stage.mesh = of->mesh;
    if (chain.name == "backbone") {
      // Inline modules run on the first stage.
      for (const config::ModuleNode* node : inline_modules(plan, model))
        place_module(*plan.find(node->name), *node, stages, true);
    }
    place_module(*of, node_of(chain.name), stages, false);
  }
  for (const config::ModulePlan& module : plan.modules) (void)node_of(module.name);
}

/// Blocks go where the plan says; what comes before them to the first virtual stage, what comes
/// after them to the last.
void LayerStageCosts::place_module(const config::ModulePlan& of, const config::ModuleNode& node,
                                   std::vector<Stage>& stages, bool is_inline) {
  const auto add = [&](std::size_t stage, const config::LayerShape& shape, std::int64_t layers) {
    if (layers == 0) return;
    Run run{.shape = shape,
            .layers = layers,
            .is_backbone = of.name == "backbone",
            .training = {.trains = of.train == config::TrainMode::kFull, .needs_input_grad = true},
            .recompute = shape.kind == LayerKind::kBlock ? of.recompute : RecomputePlan::kNone};
    // Adapters train through frozen weights: gradients come to the first layer all the same.
    run.needs_input_grad_after_first = of.train != config::TrainMode::kFrozen;
    stages[stage].runs.push_back(run);
  };
  const std::int64_t blocks = blocks_of(node);
  std::int64_t planned = 0;
  for (const config::StageLayers& stage : of.stages) planned += stage.layers;
  TRIB_REQUIRE(of.stages.empty() || planned == blocks,
               .what = "plan: stages do not hold the layers of the model",
               .where = str("modules.", of.name, ".stages"), .found = str(planned, " layers"),
               .expected = str(blocks, " layers"));
  std::int64_t first = 0;
  bool after_blocks = false;
  for (const config::LayerRun& run : node.layers) {
    if (run.shape.kind != LayerKind::kBlock) {
      after_blocks = after_blocks || (first > 0 && !is_before_blocks(run.shape.kind)) ||
                     run.shape.kind == LayerKind::kHead;
      add(after_blocks && !is_inline ? stages.size() - 1 : 0, run.shape, run.layers);
      continue;
    }
    if (is_inline || of.stages.empty()) {
      add(0, run.shape, run.layers);
    } else {
      for (std::size_t stage = 0; stage < of.stages.size(); ++stage) {
        const config::StageLayers& layers = of.stages[stage];
        const std::int64_t begin = std::max(layers.first, first);
        const std::int64_t end = std::min(layers.first + layers.layers, first + run.layers);
        add(stage, run.shape, std::max<std::int64_t>(0, end - begin));
      }
    }
    first += run.layers;
  }
}

/// A layer needs the gradient of its input where something in front of it trains.
void LayerStageCosts::find_training(const schedule::Pipeline& pipeline) {
  const schedule::PipelineMap map(pipeline);
  for (const int module : map.flow()) {
    bool upstream =
        std::any_of(map.edges_into(module).begin(), map.edges_into(module).end(), [&](int edge) {
          const int from = pipeline.edges[edge].from;
          return map.has_backward(from, pipeline.modules[from].virtual_stages() - 1);
        });
    for (Stage& stage : stages_[module]) {
      for (Run& run : stage.runs) {
        run.training.needs_input_grad = upstream;
        upstream = upstream || run.needs_input_grad_after_first;
        run.needs_input_grad_after_first = upstream;
      }
    }
  }
}

Nanoseconds LayerStageCosts::collective(CollectiveOp op, std::int64_t ranks, std::int64_t stride,
                                        Bytes bytes) const {
  if (ranks <= 1 || bytes.count == 0) return {};
  return collective_cost(cluster_, op, group_of(ranks, stride, cluster_.devices_per_node()), bytes)
      .time;
}

StageCost LayerStageCosts::cost(int module, int virtual_stage, const MicrobatchShape& shape) const {
  const Stage& stage = stages_[module][virtual_stage];
  StageCost cost;
  for (const Run& run : stage.runs) add_run(cost, stage, run, shape);
  return cost;
}

void LayerStageCosts::add_run(StageCost& cost, const Stage& stage, const Run& run,
                              const MicrobatchShape& shape) const {
  const config::MeshShape& mesh = stage.mesh;
  const PassShape whole = run.is_backbone ? shape.backbone : shape.encoder;
  if (whole.tokens <= 0) return;
  const PassShape pass = on_one_rank(whole, mesh);
  const auto cost_with = [&](bool needs_input_grad) {
    return layer_cost(cluster_.device, run.shape, pass, placement_of(mesh),
                      {.trains = run.training.trains, .needs_input_grad = needs_input_grad});
  };
  const LayerFlops flops = count_layer_flops(run.shape, whole);
  const double attention = run.shape.causal ? flops.attention / 2 : flops.attention;
  const Nanoseconds tp_time =
      collective(CollectiveOp::kAllReduce, mesh.tp, 1, cost_with(true).tp_all_reduce);
  const double sequence_bytes = kBytesPerValue * pass.tokens * static_cast<double>(run.shape.width);
  const Nanoseconds exchange =
      collective(CollectiveOp::kAllToAll, mesh.ulysses, mesh.tp,
                 {std::llround(sequence_bytes / static_cast<double>(mesh.tp))});
  for (std::int64_t layer = 0; layer < run.layers; ++layer) {
    // All layers but the first of a run are alike: count them at once.
    const std::int64_t times = layer == 0 ? 1 : run.layers - 1;
    const LayerCost each =
        cost_with(layer == 0 ? run.training.needs_input_grad : run.needs_input_grad_after_first);
    const bool has_backward =
        each.input_gradient.count + each.weight_gradient.count > 0 || run.training.trains;
    const Nanoseconds gather = collective(CollectiveOp::kAllGather, mesh.dp_shard,
                                          mesh.cp * mesh.ulysses * mesh.tp, each.parameters);
    const bool attends = run.shape.kind == LayerKind::kBlock;
    const Nanoseconds in_line =
        tp_time * each.tp_all_reduces + (attends ? exchange * 4 : Nanoseconds{});
    const auto not_hidden = [&](Nanoseconds compute) {
      return std::max(Nanoseconds{}, gather - compute);
    };
    cost.forward += each.forward * times;
    cost.forward_exposed += (in_line + not_hidden(each.forward)) * times;
    if (has_backward) {
      Nanoseconds again;
      if (run.recompute == RecomputePlan::kFull) again = each.recompute;
      if (run.recompute == RecomputePlan::kSelective) again = each.recompute_selective;
      cost.input_gradient += (each.input_gradient + again) * times;
      cost.weight_gradient += each.weight_gradient * times;
      Nanoseconds exposed = each.input_gradient.count > 0 ? in_line : Nanoseconds{};
      if (run.recompute == RecomputePlan::kFull) exposed += in_line;
      cost.gradient_exposed += (exposed + not_hidden(each.input_gradient + again)) * times;
      const Bytes kept = run.recompute == RecomputePlan::kFull        ? each.activation_recomputed
                         : run.recompute == RecomputePlan::kSelective ? each.activation_selective
                                                                      : each.activation;
      cost.kept += kept * times;
      cost.kept_after_input_gradient += (run.training.trains ? each.activation : Bytes{}) * times;
      cost.backward_peak = std::max(cost.backward_peak, each.activation - kept);
    }
    double passes = 1;
    if (each.input_gradient.count > 0) passes += 1;
    double attention_passes = each.input_gradient.count > 0 ? 3 : 1;
    if (run.training.trains) passes += 1;
    cost.flops +=
        static_cast<double>(times) * (passes * flops.linear + attention_passes * attention);
    cost.outside_grid = cost.outside_grid || each.outside_grid;
    if (layer == 1) break;
  }
  // Host time of a microbatch that nothing hides: the loss is waited for, as in calibrate.
  if (run.shape.kind == LayerKind::kHead)
    cost.forward += Nanoseconds{std::llround(1e9 * cluster_.device.microbatch_s)};
  const double merged = static_cast<double>(std::max<std::int64_t>(1, run.shape.merge));
  cost.boundary = {std::llround(sequence_bytes / merged / static_cast<double>(mesh.tp))};
}

StageState LayerStageCosts::state(int module, int virtual_stage) const {
  const Stage& stage = stages_[module][virtual_stage];
  const config::MeshShape& mesh = stage.mesh;
  StageState state;
  Bytes trained;  // parameters with gradients
  for (const Run& run : stage.runs) {
    const LayerCost each =
        layer_cost(cluster_.device, run.shape, {.tokens = 1, .squared_tokens = 1},
                   placement_of(mesh), run.training);
    const double shard = 1 / static_cast<double>(mesh.dp_shard);
    state.parameters += part(each.parameters * run.layers, shard);
    state.gradients += each.gradients * run.layers;
    state.optimizer += each.optimizer * run.layers;
    if (mesh.dp_shard > 1) state.gathered = std::max(state.gathered, each.parameters * 2);
    if (run.training.trains) trained += each.parameters * run.layers;
  }
  const std::int64_t inner = mesh.cp * mesh.ulysses * mesh.tp;
  state.reduction = collective(CollectiveOp::kReduceScatter, mesh.dp_shard * mesh.cp * mesh.ulysses,
                               mesh.tp, trained) +
                    collective(CollectiveOp::kAllReduce, mesh.dp_replicate, inner * mesh.dp_shard,
                               part(trained, 1 / static_cast<double>(mesh.dp_shard)));
  // Two bytes a parameter; the optimizer's work is shared as its state is.
  state.optimizer_step =
      optimizer_time(cluster_.device, static_cast<double>(trained.count) / kBytesPerValue /
                                          static_cast<double>(mesh.dp_shard));
  return state;
}

}  // namespace tributary::plan
