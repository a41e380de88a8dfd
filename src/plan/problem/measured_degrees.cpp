#include "plan/problem/measured_degrees.h"

#include <algorithm>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "core/join.h"

namespace tributary::plan {
namespace {

using config::CollectiveOp;
using config::MeshShape;
using config::ModuleNode;

bool has_layers(const cost::CostSource& costs, const ModuleNode& node, std::int64_t tp) {
  return std::all_of(node.layers.begin(), node.layers.end(), [&](const config::LayerRun& run) {
    return run.layers == 0 || costs.has_layer(node.name, run.shape, tp);
  });
}

/// Modules whose layers run on the ranks of `node`.
std::vector<const ModuleNode*> modules_with(const PlanningProblem& problem, const ModuleNode& node,
                                            std::uint64_t apart) {
  std::vector<const ModuleNode*> modules{&node};
  if (node.name != config::kBackboneModule) return modules;
  const std::vector<const ModuleNode*> encoders = encoders_of(problem);
  for (const ModuleNode& each : problem.model.modules) {
    const auto found = std::find(encoders.begin(), encoders.end(), &each);
    const bool is_apart = found != encoders.end() && (apart >> (found - encoders.begin()) & 1) != 0;
    if (&each != &node && !is_apart) modules.push_back(&each);
  }
  return modules;
}

bool has_tied_head(const ModuleNode& node) {
  return std::any_of(node.layers.begin(), node.layers.end(), [](const config::LayerRun& run) {
    return run.shape.kind == config::LayerKind::kHead && run.shape.tied;
  });
}

}  // namespace

std::string LeftOut::text() const { return join(degrees); }

std::string missing_degree(const PlanningProblem& problem, const ModuleNode& node,
                           const MeshShape& mesh, std::uint64_t apart) {
  if (!problem.measured) return "";
  const cost::CostSource& costs = *problem.measured;
  const auto has = [&](std::initializer_list<CollectiveOp> ops, std::int64_t ranks) {
    return std::all_of(ops.begin(), ops.end(),
                       [&](CollectiveOp op) { return costs.has_collective(op, ranks); });
  };
  for (const ModuleNode* module : modules_with(problem, node, apart))
    if (!has_layers(costs, *module, mesh.tp)) return str(module->name, " tp ", mesh.tp);
  if (!has({CollectiveOp::kAllReduce}, mesh.tp)) return str(node.name, " tp ", mesh.tp);
  const std::int64_t sequence = mesh.cp * mesh.ulysses;
  if (!has({CollectiveOp::kSend}, mesh.cp)) return str(node.name, " cp ", mesh.cp);
  if (!has({CollectiveOp::kAllToAll}, mesh.ulysses))
    return str(node.name, " ulysses ", mesh.ulysses);
  if (!has({CollectiveOp::kAllToAll}, sequence)) return str(node.name, " cp x ulysses ", sequence);
  if (!has({CollectiveOp::kAllToAll}, mesh.ep)) return str(node.name, " ep ", mesh.ep);
  const std::int64_t shards = mesh.dp_shard * sequence;
  for (const std::int64_t ranks : {shards, shards / mesh.ep})
    if (!has({CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}, ranks))
      return str(node.name, sequence == 1 ? " dp_shard " : " dp_shard x cp x ulysses ", ranks);
  if (!has({CollectiveOp::kAllReduce}, mesh.dp_replicate))
    return str(node.name, " dp_replicate ", mesh.dp_replicate);
  if (mesh.pp > 1 && has_tied_head(node) && !has({CollectiveOp::kAllReduce}, 2))
    return str(node.name, " pp ", mesh.pp, " with a tied head");
  return "";
}

}  // namespace tributary::plan
