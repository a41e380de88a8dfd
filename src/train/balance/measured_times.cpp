#include "train/balance/measured_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "config/artifact/check_profile.h"
#include "config/family/known_modules.h"
#include "config/run/adapter_layers.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "model/model.h"

namespace tributary::train {
namespace {

/// Reads the profile, and checks that it is of the run's model.
config::Profile read_costs(const config::RunConfig& config) {
  constexpr std::uint64_t kMaxBytes = 16 << 20;
  config::Profile profile = config::read_profile(config.batch.costs);
  const std::string path = config.model.path + "/config.json";
  const std::string digest = config::model_digest(read_given_file(
      path, kMaxBytes,
      {.what = "train: model cannot be read", .expected = "a directory with a config.json"}));
  TRIB_REQUIRE(profile.model.ends_with(digest), .what = "train: profile is of another model",
               .where = "batch.costs " + config.batch.costs, .found = profile.model,
               .expected = str("a name and ", digest, ", of ", path),
               .fix = "measure this model: tributary profile");
  config::check_profile_adapter(profile, config::adapter_key(config.model),
                                "batch.costs " + config.batch.costs);
  return profile;
}

/// The layers of the run's model, with its adapters.
config::ModuleGraph graph_of(const config::RunConfig& config) {
  config::ModuleGraph graph = config::read_graph_of_model(config.model.path);
  if (!config.model.has_adapters()) return graph;
  const auto maps = model::list_linear_maps(config::read_model_config(config.model.path));
  return config::add_adapters(std::move(graph), config.model, maps);
}

/// Modules whose gradients other modules in front of them need.
std::set<std::string> behind_trained(const config::ModuleGraph& graph,
                                     const config::ModelSection& section) {
  const auto trains = [&](const std::string& module) {
    return std::ranges::find(section.freeze, module) == section.freeze.end();
  };
  std::set<std::string> behind;
  for (std::size_t i = 0; i < graph.modules.size(); ++i)  // along the longest way
    for (const config::ModuleEdge& edge : graph.edges)
      if (trains(edge.from) || behind.contains(edge.from)) behind.insert(edge.to);
  return behind;
}

/// The tp ranks of a module; one that is inline has those of the backbone.
std::int64_t tp_of(const config::Plan& plan, const std::string& module) {
  const config::ModulePlan* own = plan.find(module);
  if (own == nullptr || own->ranks.empty()) own = plan.find(config::kBackboneModule);
  return own->mesh.tp;
}

/// The most items that a profile has measured a module with.
std::int64_t measured_items(const cost::CostSource& costs, const config::ModuleNode& node,
                            std::int64_t tp) {
  std::int64_t min = std::numeric_limits<std::int64_t>::max();
  for (const config::LayerRun& run : node.layers)
    min = std::min(min, costs.measured_tokens(node.name, run.shape, tp));
  return min;
}

}  // namespace

MeasuredTimes::MeasuredTimes(const config::RunConfig& config, const config::Plan& plan,
                             std::int64_t ranks, std::int64_t threads)
    : costs_(read_costs(config), ranks, threads, config.batch.costs) {
  const config::ModuleGraph graph = graph_of(config);
  const std::set<std::string> behind = behind_trained(graph, config.model);
  const auto again = config::run_again(config.model.recompute, config.model.offload);
  for (const config::ModuleNode& node : graph.modules) {
    Module module{.node = node, .execution = {}};
    module.execution.placement.tp = tp_of(plan, node.name);
    const config::ModuleRecompute repeats = config::recompute_of(again, node.name);
    module.execution.recompute = repeats.level;
    module.execution.recompute_every = repeats.every;
    module.execution.trains =
        std::ranges::find(config.model.freeze, node.name) == config.model.freeze.end();
    module.execution.trains_adapters = config.model.has_adapters();
    module.execution.upstream_trains = behind.contains(node.name);
    std::int64_t full = measured_items(costs_, node, module.execution.placement.tp);
    if (node.name == config::kBackboneModule)
      full = std::min(full, config.batch.capacity_tokens.count);
    module.full = static_cast<double>(std::max<std::int64_t>(1, full));
    modules_.emplace(node.name, std::move(module));
    (void)time_of(node.name, 1, 1);  // finds what the profile lacks
  }
}

Nanoseconds MeasuredTimes::time_of(const std::string& module, const Grid& inside) const {
  const auto rows = static_cast<double>(inside.patches());
  return time_of(module, rows, rows * static_cast<double>(inside.rows * inside.columns));
}

Nanoseconds MeasuredTimes::time_of(const std::string& module, double items, double pairs) const {
  if (items <= 0) return {};
  const Module& of = modules_.at(module);
  const double length = pairs / items;
  const cost::PassShape full{
      .tokens = of.full,
      .squared_tokens = of.full * length,
      .sequences = std::max<std::int64_t>(1, std::llround(of.full / length))};
  const cost::ModuleCost cost = cost::module_cost(costs_, std::numeric_limits<std::int64_t>::max(),
                                                  of.node, full, of.execution);
  const double time = static_cast<double>(cost.time().count) * items / of.full;
  return {std::max<std::int64_t>(1, std::llround(time))};
}

}  // namespace tributary::train
