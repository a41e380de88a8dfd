#include "schedule/pipeline/plan_pipeline.h"

#include <algorithm>

#include "config/family/known_modules.h"
#include "config/plan/plan_names.h"
#include "core/error.h"

namespace tributary::schedule {
namespace {

using config::ModulePlan;
using config::Placement;
using config::Plan;

bool is_chain(const ModulePlan& module) { return module.placement != Placement::kInline; }

void require_whole_ranks(const ModulePlan& module) {
  TRIB_REQUIRE(module.placement != Placement::kSliced,
               .what = "schedule: placement has no action lists yet",
               .where = str("modules.", module.name, ".placement"),
               .found = config::plan_name_of(module.placement),
               .expected = "inline, colocated, separate or flow");
}

PipelineModule chain_of(const ModulePlan& plan) {
  PipelineModule module{.name = plan.name, .order = plan.schedule};
  module.stages = static_cast<int>(plan.mesh.pp);
  const std::int64_t virtual_stages = std::max<std::int64_t>(1, std::ssize(plan.stages));
  module.chunks = static_cast<int>(virtual_stages / plan.mesh.pp);
  module.replicas = static_cast<int>(plan.mesh.dp_replicate * plan.mesh.dp_shard);
  if (plan.placement == Placement::kColocated) module.passes = static_cast<int>(plan.passes);
  module.trains.assign(static_cast<std::size_t>(virtual_stages),
                       plan.train != config::TrainMode::kFrozen);
  return module;
}

bool lies_on_first_stage(const ModulePlan& colocated, const ModulePlan& backbone) {
  return colocated.ranks.size() < backbone.ranks.size();
}

/// The index of the chain that runs a module; an inline one runs in the backbone's.
int chain_index(const Pipeline& pipeline, const Plan& plan, const std::string& name) {
  const std::string chain =
      is_chain(*plan.find(name)) ? name : std::string(config::kBackboneModule);
  const auto found = std::find_if(pipeline.modules.begin(), pipeline.modules.end(),
                                  [&](const PipelineModule& each) { return each.name == chain; });
  return static_cast<int>(found - pipeline.modules.begin());
}

}  // namespace

Pipeline pipeline_of(const Plan& plan) {
  Pipeline pipeline;
  pipeline.microbatches = static_cast<int>(plan.batch.microbatches);
  for (const ModulePlan& module : plan.modules) {
    require_whole_ranks(module);
    if (is_chain(module)) pipeline.modules.push_back(chain_of(module));
    if (module.placement != Placement::kColocated) continue;
    pipeline.modules.back().beside_first =
        lies_on_first_stage(module, *plan.find(config::kBackboneModule));
    pipeline.modules.back().takes_turns = module.turns || module.ahead;
    pipeline.modules.back().ahead = module.ahead;
  }
  const int backbone = chain_index(pipeline, plan, std::string(config::kBackboneModule));
  for (const ModulePlan& module : plan.modules)
    if (!is_chain(module) && module.train != config::TrainMode::kFrozen)
      pipeline.modules[backbone].trains[0] = true;
  for (const config::EdgePlan& edge : plan.edges) {
    const int from = chain_index(pipeline, plan, edge.from);
    const int to = chain_index(pipeline, plan, edge.to);
    TRIB_REQUIRE(from != backbone || to == backbone,
                 .what = "schedule: module behind the backbone has no action lists yet",
                 .where = str("modules.", edge.to), .expected = "modules in front of it");
    if (from != to) pipeline.edges.push_back({.from = from, .to = to});
  }
  return pipeline;
}

std::size_t backbone_of(const Pipeline& pipeline) {
  std::size_t backbone = 0;
  while (pipeline.modules[backbone].name != config::kBackboneModule) ++backbone;
  return backbone;
}

std::vector<std::vector<int>> lanes_of_ranks(const Plan& plan, const PipelineMap& map) {
  std::vector<std::vector<int>> lanes;
  for (const ModulePlan& module : plan.modules) {
    if (!is_chain(module)) continue;
    const int index = chain_index(map.pipeline(), plan, module.name);
    for (std::size_t i = 0; i < module.ranks.size(); ++i) {
      const auto rank = static_cast<std::size_t>(module.ranks[i]);
      if (rank >= lanes.size()) lanes.resize(rank + 1);
      const config::MeshCoordinates at =
          config::coordinates_of(module.mesh, static_cast<std::int64_t>(i));
      const std::int64_t replica = at.dp_replicate * module.mesh.dp_shard + at.dp_shard;
      const int lane = map.lane_of({index, static_cast<int>(replica), static_cast<int>(at.pp)});
      lanes[rank].push_back(lane);
    }
  }
  for (std::vector<int>& own : lanes)
    std::ranges::stable_sort(own, {}, [&](int lane) { return map.turn_of(lane); });
  return lanes;
}

}  // namespace tributary::schedule
