#include <algorithm>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "cost/stages/place_layers.h"

namespace tributary::cost {
namespace {

using config::LayerKind;
using config::ModuleNode;
using config::ModulePlan;

bool divides(std::int64_t divisor, std::int64_t number) { return number % divisor == 0; }

void check_modules(const config::Plan& plan, const config::ModuleGraph& model) {
  for (const ModulePlan& module : plan.modules)
    TRIB_REQUIRE(model.find(module.name) != nullptr, .what = "cost: model has no such module",
                 .where = str("modules.", module.name), .found = str("model ", model.name),
                 .expected = "a module of the model");
  for (const ModuleNode& node : model.modules)
    TRIB_REQUIRE(plan.find(node.name) != nullptr, .what = "cost: module of the model has no place",
                 .where = str("modules.", node.name), .found = "no such key",
                 .expected = str("every module of model ", model.name),
                 .fix = "add it to the plan, inline for one in the backbone's first stage");
}

void check_modes(const ModulePlan& module, const ModuleNode& node) {
  const bool has_adapters = std::ranges::any_of(
      node.layers, [](const config::LayerRun& run) { return run.shape.adapter.maps > 0; });
  TRIB_REQUIRE(has_adapters || module.train != config::TrainMode::kLora,
               .what = "cost: module of the plan has no adapter",
               .where = str("modules.", module.name, ".train"), .found = "lora",
               .expected = "full or frozen, or training.adapter with targets in the module");
  TRIB_REQUIRE(module.offload == config::Offload::kNone,
               .what = "cost: cluster does not say how fast its host memory is",
               .where = str("modules.", module.name, ".offload"),
               .found = module.offload == config::Offload::kOptimizer ? "optimizer" : "parameters",
               .expected = "none");
}

void check_cluster(const config::Plan& plan, const config::Cluster& cluster) {
  for (const ModulePlan& module : plan.modules) {
    const auto last = std::max_element(module.ranks.begin(), module.ranks.end());
    TRIB_REQUIRE(
        last == module.ranks.end() || *last < cluster.devices,
        .what = "cost: cluster is too small for the plan",
        .where = str("modules.", module.name, ".ranks"), .found = str("rank ", *last),
        .expected = str("below ", cluster.devices, ", the devices of cluster ", cluster.name));
  }
}

/// Checks one axis of a module's mesh against the sizes of a layer.
class DegreeCheck {
 public:
  DegreeCheck(const ModulePlan& module, const config::MeshShape& mesh)
      : module_(module), mesh_(mesh) {}

  void check(const config::LayerShape& layer) const {
    require(divides(mesh_.tp, layer.heads), "tp", mesh_.tp, str(layer.heads, " heads"),
            "a number of ranks that divides the heads");
    require(exchanges(layer.kv_heads, mesh_.tp), "tp", mesh_.tp,
            str(layer.kv_heads, " key-value heads"),
            "a number of ranks that divides the key-value heads, or a multiple of them");
    require(divides(mesh_.tp, layer.mlp_width), "tp", mesh_.tp,
            str("MLPs ", layer.mlp_width, " wide"), "a number of ranks that divides the MLP");
    if (module_.name == config::kBackboneModule) check_ulysses(layer);
    if (layer.experts > 0) check_experts(layer);
  }
  void check_without_experts() const { require(mesh_.ep == 1, "ep", mesh_.ep, "no experts", "1"); }

 private:
  static bool exchanges(std::int64_t heads, std::int64_t ranks) {
    return divides(ranks, heads) || divides(heads, ranks);
  }
  void check_ulysses(const config::LayerShape& layer) const {
    const std::int64_t heads = layer.heads / mesh_.tp;
    require(divides(mesh_.ulysses, heads), "ulysses", mesh_.ulysses,
            str(heads, " heads on each of ", mesh_.tp, " tp ranks"),
            "a number of ranks that divides them");
    const std::int64_t kv_heads = std::max<std::int64_t>(1, layer.kv_heads / mesh_.tp);
    require(exchanges(kv_heads, mesh_.ulysses), "ulysses", mesh_.ulysses,
            str(kv_heads, " key-value heads on each of ", mesh_.tp, " tp ranks"),
            "a number of ranks that divides them, or a multiple of them");
  }
  void check_experts(const config::LayerShape& layer) const {
    require(divides(mesh_.ep, layer.experts), "ep", mesh_.ep, str(layer.experts, " experts"),
            "a number of ranks that divides the experts");
    const std::int64_t shards = mesh_.dp_shard * mesh_.cp * mesh_.ulysses;
    require(divides(mesh_.ep, shards), "ep", mesh_.ep,
            str(shards, " ranks of dp_shard, cp and ulysses"),
            "a number of ranks that divides them: ep is a view of them");
  }
  void require(bool holds, const std::string& axis, std::int64_t degree, const std::string& found,
               const std::string& expected) const {
    TRIB_REQUIRE(holds, .what = "cost: layers of the model cannot be cut so",
                 .where = str("modules.", module_.name, ".mesh.", axis, " = ", degree),
                 .found = found, .expected = expected);
  }

  const ModulePlan& module_;
  const config::MeshShape& mesh_;
};

}  // namespace

void check_placement(const config::Plan& plan, const config::ModuleGraph& model,
                     const config::Cluster& cluster) {
  check_modules(plan, model);
  check_cluster(plan, cluster);
  for (const ModulePlan& module : plan.modules) {
    check_modes(module, *model.find(module.name));
    const bool is_inline = module.placement == config::Placement::kInline;
    const DegreeCheck degrees(module,
                              is_inline ? plan.find(config::kBackboneModule)->mesh : module.mesh);
    bool has_experts = false;
    for (const config::LayerRun& run : model.find(module.name)->layers) {
      has_experts = has_experts || run.shape.experts > 0;
      if (run.shape.kind == LayerKind::kBlock) degrees.check(run.shape);
    }
    if (!has_experts && !is_inline) degrees.check_without_experts();
  }
}

}  // namespace tributary::cost
