#include "plan/chains/chain_forms.h"

#include <algorithm>

#include "config/family/known_modules.h"

namespace tributary::plan {
namespace {

double mean_tokens(const PlanningProblem& problem) {
  return mean_batch(problem).backbone.tokens / static_cast<double>(problem.global_samples());
}

/// Whether ep divides the experts of an encoder inside the backbone, which has the backbone's ep.
bool divides_experts(const config::ModuleNode& node, std::int64_t ep) {
  return std::ranges::all_of(
      node.layers, [ep](const config::LayerRun& run) { return run.shape.experts % ep == 0; });
}

}  // namespace

std::vector<ChainForm> list_forms(const PlanningProblem& problem, std::size_t encoder,
                                  std::uint64_t apart) {
  const std::vector<const config::ModuleNode*> encoders = encoders_of(problem);
  const config::ModuleNode& own =
      encoder < encoders.size() ? *encoders[encoder] : *problem.model.find(config::kBackboneModule);
  const auto can_cut_all = [&](const ChainForm& form) {
    const config::MeshShape mesh{
        .dp_shard = form.ep, .cp = form.cp, .ulysses = form.ulysses, .tp = form.tp, .ep = form.ep};
    if (!can_cut(problem, own, mesh)) return false;
    if (encoder < encoders.size()) return true;
    config::MeshShape dense = mesh;
    dense.ep = 1;
    for (std::size_t i = 0; i < encoders.size(); ++i) {  // those inside are cut like the backbone
      if ((apart >> i & 1) != 0) continue;
      if (!can_cut(problem, *encoders[i], dense) || !divides_experts(*encoders[i], form.ep))
        return false;
    }
    return true;
  };
  const bool is_long = encoder == encoders.size() &&
                       mean_tokens(problem) >= static_cast<double>(problem.space.long_sample);
  const std::int64_t max_cp = is_long ? problem.space.max_cp : 1;
  const std::int64_t max_ulysses = is_long ? problem.space.max_ulysses : 1;
  const std::int64_t max_sequence = std::max(max_cp, max_ulysses);
  const std::int64_t max_ep = encoder == encoders.size() ? problem.space.max_ep : 1;
  std::vector<ChainForm> forms;
  for (std::int64_t tp = 1; tp <= std::min(problem.space.max_tp, problem.devices); tp *= 2)
    for (std::int64_t cp = 1; cp <= max_cp; cp *= 2)
      for (std::int64_t ulysses = 1; ulysses <= max_ulysses && cp * ulysses <= max_sequence;
           ulysses *= 2)
        for (std::int64_t ep = 1; ep <= max_ep; ep *= 2) {
          const ChainForm form{
              .encoder = encoder, .apart = apart, .tp = tp, .cp = cp, .ulysses = ulysses, .ep = ep};
          const bool has_room = form.ep * form.ranks() <= problem.devices;
          if (has_room && can_cut_all(form)) forms.push_back(form);
        }
  return forms;
}

std::vector<config::MeshShape> meshes_of(const PlanningProblem& problem, const ChainForm& form,
                                         std::int64_t pp, std::int64_t dp, LeftOut* left_out) {
  const config::ModuleNode& backbone = *problem.model.find(config::kBackboneModule);
  config::MeshShape mesh{
      .pp = pp, .cp = form.cp, .ulysses = form.ulysses, .tp = form.tp, .ep = form.ep};
  std::vector<config::MeshShape> meshes;
  const auto add = [&](std::int64_t shard) {
    if ((shard * form.cp * form.ulysses) % form.ep != 0) return;
    mesh.dp_shard = shard;
    mesh.dp_replicate = dp / shard;
    const std::string missing = missing_degree(problem, backbone, mesh, form.apart);
    if (missing.empty())
      meshes.push_back(mesh);
    else if (left_out != nullptr)
      left_out->degrees.insert(missing);
  };
  if (problem.space.replicates || dp == 1) add(1);
  if (!problem.space.shards || dp == 1) return meshes;
  std::int64_t in_node = problem.cluster.devices_per_node() / form.ranks();
  while (in_node > 1 && dp % in_node != 0) --in_node;
  if (in_node > 1 && in_node < dp && problem.space.replicates) add(in_node);
  add(dp);
  return meshes;
}

}  // namespace tributary::plan
