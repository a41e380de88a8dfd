#include "plan/problem/plan_choice.h"

#include <algorithm>
#include <numeric>

#include "config/family/known_modules.h"
#include "config/plan/plan_names.h"
#include "core/error.h"
#include "schedule/order/all_orders.h"

namespace tributary::plan {
namespace {

using config::LayerKind;
using config::MeshShape;
using config::ModuleNode;
using config::ModulePlan;

bool divides(std::int64_t by, std::int64_t number) { return number % by == 0; }

std::int64_t blocks_of(const ModuleNode& node) {
  std::int64_t blocks = 0;
  for (const config::LayerRun& run : node.layers)
    if (run.shape.kind == LayerKind::kBlock) blocks += run.layers;
  return blocks;
}

std::vector<config::StageLayers> stages_of(const ModuleNode& node, const ChainCut& cut) {
  const std::int64_t last = units_of(node) - 1;
  const bool has_ends = node.name == config::kBackboneModule;
  std::vector<config::StageLayers> stages;
  for (std::size_t stage = 0; stage + 1 < cut.size(); ++stage) {
    config::StageLayers layers;
    std::int64_t first = cut[stage];
    std::int64_t end = cut[stage + 1];
    if (has_ends) {  // unit u is block u - 1
      layers.embed = first == 0;
      layers.head = end == last + 1;
      first = std::max<std::int64_t>(first, 1) - 1;
      end = std::min(end, last) - 1;
    }
    layers.layers = std::max<std::int64_t>(0, end - first);
    layers.first = layers.layers > 0 ? first : 0;
    stages.push_back(layers);
  }
  return stages;
}

ModulePlan chain_plan(const PlanningProblem& problem, const ModuleNode& node,
                      const ChainChoice& choice, const ChainCut& cut, std::int64_t first_rank) {
  ModulePlan module{.name = node.name, .mesh = choice.mesh, .recompute = choice.recompute};
  module.ranks.resize(static_cast<std::size_t>(choice.devices()));
  std::iota(module.ranks.begin(), module.ranks.end(), first_rank);
  module.stages = stages_of(node, cut);
  module.train = problem.mode_of(node.name);
  return module;
}

bool can_cut_block(const config::LayerShape& block, const MeshShape& mesh) {
  const std::int64_t kv = std::max<std::int64_t>(1, block.kv_heads);
  if (!divides(mesh.tp, block.heads) || !divides(mesh.tp, block.mlp_width)) return false;
  if (!divides(mesh.tp, kv) && !divides(kv, mesh.tp)) return false;
  const std::int64_t own = block.heads / mesh.tp;
  const std::int64_t own_kv = std::max<std::int64_t>(1, kv / mesh.tp);
  if (!divides(mesh.ulysses, own)) return false;
  if (!divides(mesh.ulysses, own_kv) && !divides(own_kv, mesh.ulysses)) return false;
  return mesh.ep == 1 || (block.experts > 0 && divides(mesh.ep, block.experts));
}

std::string degrees_text(const MeshShape& mesh) {
  std::string text = str("tp ", mesh.tp, ", pp ", mesh.pp, ", dp ");
  if (mesh.dp_shard == 1) {
    text += str(mesh.dp_replicate);
  } else if (mesh.dp_replicate == 1) {
    text += str(mesh.dp_shard, " sharded");
  } else {
    text += str(mesh.dp_replicate, " of ", mesh.dp_shard, " sharded");
  }
  if (mesh.cp > 1) text += str(", cp ", mesh.cp);
  if (mesh.ulysses > 1) text += str(", ulysses ", mesh.ulysses);
  if (mesh.ep > 1) text += str(", ep ", mesh.ep);
  return text;
}

std::string recompute_text(config::RecomputePlan level) {
  if (level == config::RecomputePlan::kNone) return "";
  return str(", ", config::plan_name_of(level), " recompute");
}

/// A capacity that `microbatches` level microbatches of any batch hardly ever exceed: the longest
/// sample on top of an even share. With costly attention, a microbatch may hold many short samples.
Tokens ample_capacity(const PlanningProblem& problem, std::int64_t microbatches) {
  std::int64_t longest = problem.longest_sample.count;
  std::int64_t largest = 0;
  for (const std::vector<simulate::SampleSize>& batch : problem.batches) {
    std::int64_t tokens = 0;
    for (const simulate::SampleSize& sample : batch) {
      tokens += sample.tokens;
      longest = std::max(longest, sample.tokens);
    }
    largest = std::max(largest, tokens);
  }
  return {longest + largest / microbatches + 1};
}

}  // namespace

std::int64_t PlanChoice::devices() const {
  std::int64_t devices = backbone.devices();
  for (const std::optional<ChainChoice>& encoder : encoders)
    if (encoder && !encoder->is_colocated()) devices += encoder->devices();
  return devices;
}

bool PlanChoice::is_cut() const {
  return backbone.mesh.pp > 1 || std::any_of(encoders.begin(), encoders.end(),
                                             [](const auto& each) { return each.has_value(); });
}

bool PlanChoice::has_colocated() const {
  return std::any_of(encoders.begin(), encoders.end(),
                     [](const auto& each) { return each && each->is_colocated(); });
}

double messages_of(const PlanChoice& choice) {
  const auto rounds = static_cast<double>(choice.microbatches);
  const auto replicas = static_cast<double>(choice.backbone.replicas());
  double size =
      8 * rounds * replicas * static_cast<double>(choice.backbone.mesh.pp * choice.chunks);
  for (const std::optional<ChainChoice>& encoder : choice.encoders) {
    if (!encoder) continue;
    const auto givers = static_cast<double>(encoder->replicas());
    size += 8 * rounds * givers * static_cast<double>(encoder->mesh.pp) +
            4 * rounds * givers * replicas;
  }
  return size;
}

std::int64_t units_of(const ModuleNode& node) {
  return blocks_of(node) + (node.name == config::kBackboneModule ? 2 : 0);
}

config::Plan to_plan(const PlanningProblem& problem, const PlanChoice& choice,
                     const std::vector<ChainCut>& cuts) {
  config::Plan plan;
  std::int64_t rank = 0;
  std::size_t chain = 0;
  const std::int64_t first_of_backbone = choice.devices() - choice.backbone.devices();
  const std::vector<const ModuleNode*> encoders = encoders_of(problem);
  for (std::size_t i = 0; i < encoders.size(); ++i) {
    if (!choice.encoders[i]) continue;
    if (choice.encoders[i]->is_colocated()) {
      plan.modules.push_back(
          chain_plan(problem, *encoders[i], *choice.encoders[i], cuts[chain++], first_of_backbone));
      plan.modules.back().placement = config::Placement::kColocated;
      plan.modules.back().passes = choice.encoders[i]->passes;
      continue;
    }
    ModulePlan module = chain_plan(problem, *encoders[i], *choice.encoders[i], cuts[chain++], rank);
    // It follows the backbone, and splits its backward where the backbone does.
    if (choice.schedule == config::PipelineOrder::kZbH1) module.schedule = choice.schedule;
    rank += choice.encoders[i]->devices();
    plan.modules.push_back(std::move(module));
  }
  const ModuleNode& node = *problem.model.find(config::kBackboneModule);
  plan.modules.push_back(chain_plan(problem, node, choice.backbone, cuts[chain], rank));
  plan.modules.back().schedule = choice.schedule;
  for (const ModuleNode& each : problem.model.modules) {
    if (plan.find(each.name) != nullptr) continue;
    ModulePlan module{.name = each.name, .placement = config::Placement::kInline};
    const auto encoder = std::ranges::find(encoders, &each);
    if (encoder != encoders.end())
      module.recompute = choice.inside.of(static_cast<std::size_t>(encoder - encoders.begin()));
    module.train = problem.mode_of(each.name);
    plan.modules.push_back(std::move(module));
  }
  std::sort(plan.modules.begin(), plan.modules.end(),
            [](const ModulePlan& a, const ModulePlan& b) { return a.name < b.name; });
  for (const config::ModuleEdge& edge : problem.model.edges)
    plan.edges.push_back({.from = edge.from, .to = edge.to});
  plan.batch = {
      .global_samples = problem.global_samples(),
      .microbatches = choice.microbatches,
      .capacity_tokens = ample_capacity(problem, choice.backbone.replicas() * choice.microbatches),
      .packing = config::Packing::kLevel,
      .balance = config::Balance::kLpt2d};
  plan.training = problem.training;
  return plan;
}

bool can_cut(const PlanningProblem& problem, const ModuleNode& node, const MeshShape& mesh) {
  const std::int64_t in_node = problem.cluster.devices_per_node();
  if (mesh.tp > in_node || !divides(mesh.tp, in_node)) return false;
  if (mesh.pp > units_of(node)) return false;
  if (!divides(mesh.ep, mesh.dp_shard * mesh.cp * mesh.ulysses)) return false;
  return std::all_of(node.layers.begin(), node.layers.end(), [&](const config::LayerRun& run) {
    return run.shape.kind != LayerKind::kBlock || can_cut_block(run.shape, mesh);
  });
}

bool can_colocate(const PlanningProblem& problem, const ModuleNode& encoder,
                  config::PipelineOrder order) {
  return problem.is_frozen(encoder.name) || !schedule::traits_of(order).splits_backward;
}

bool is_aligned(const PlanningProblem& problem, const PlanChoice& choice) {
  std::int64_t rank = 0;
  for (const std::optional<ChainChoice>& encoder : choice.encoders) {
    if (!encoder || encoder->is_colocated()) continue;
    if (!divides(encoder->mesh.tp, rank)) return false;
    rank += encoder->devices();
  }
  for (const std::optional<ChainChoice>& encoder : choice.encoders)
    if (encoder && encoder->is_colocated() &&
        (!divides(encoder->mesh.tp, rank) || encoder->devices() != choice.backbone.devices()))
      return false;
  return divides(choice.backbone.mesh.tp, rank) &&
         rank + choice.backbone.devices() <= problem.devices;
}

std::string describe(const PlanningProblem& problem, const PlanChoice& choice) {
  std::string text = str("backbone ", degrees_text(choice.backbone.mesh),
                         recompute_text(choice.backbone.recompute), "; ");
  const std::vector<const ModuleNode*> encoders = encoders_of(problem);
  for (std::size_t i = 0; i < encoders.size(); ++i) {
    const std::optional<ChainChoice>& encoder = choice.encoders[i];
    text += encoders[i]->name;
    if (!encoder) {
      text += str(" inline", recompute_text(choice.inside.of(i)), "; ");
      continue;
    }
    if (encoder->is_colocated()) text += " colocated";
    text += str(' ', degrees_text(encoder->mesh), recompute_text(encoder->recompute));
    if (encoder->passes > 1) text += str(", ", encoder->passes, " passes");
    text += "; ";
  }
  text += std::string(schedule::traits_of(choice.schedule).name);
  if (choice.schedule == config::PipelineOrder::kInterleaved)
    text += str(' ', choice.chunks, " chunks");
  return text +
         str(", ", choice.microbatches, choice.microbatches == 1 ? " microbatch" : " microbatches");
}

}  // namespace tributary::plan
