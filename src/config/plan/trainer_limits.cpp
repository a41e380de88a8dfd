#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "config/family/known_modules.h"
#include "config/plan/plan.h"
#include "config/plan/plan_names.h"
#include "config/reading/problems.h"
#include "config/reading/ranges.h"
#include "config/run/module_places.h"
#include "config/run/run_config.h"
#include "core/join.h"

namespace tributary::config {
namespace {

constexpr const char* kCannot = "train: plan asks for what the trainer cannot do";

/// The placements of encoders that the executor runs.
constexpr std::array kExecuted{Placement::kInline, Placement::kSeparate, Placement::kColocated,
                               Placement::kFlow};

bool is_executed(Placement placement) {
  return std::ranges::find(kExecuted, placement) != kExecuted.end();
}

std::string executed_placements() { return join(kExecuted, " or ", plan_name_of<Placement>); }

/// Gathers the parts of a plan that the trainer cannot run, whatever the model.
class Limits {
 public:
  Limits(const Plan& plan, const std::string& where, bool has_adapters)
      : plan_(plan),
        where_(where),
        backbone_(*plan.find(kBackboneModule)),
        has_adapters_(has_adapters) {}

  std::vector<ErrorParts> list() {
    check_ranks();
    for (const ModulePlan& module : plan_.modules) check_module(module);
    check_colocated();
    for (const ModulePlan& module : plan_.modules)
      if (module.placement == Placement::kFlow) check_flow(module);
    return std::move(limits_);
  }

 private:
  void require(bool holds, const std::string& module, const std::string& key,
               const std::string& found, const std::string& expected, const std::string& fix = {}) {
    if (holds) return;
    limits_.push_back({.what = kCannot,
                       .where = str(where_, " modules.", module, ".", key),
                       .found = found,
                       .expected = expected,
                       .fix = fix});
  }

  /// The ranks of the modules without gaps: `set modules.vision.ranks to 2`.
  [[nodiscard]] std::string close_gaps(const std::set<std::int64_t>& ranks) const {
    const std::vector<std::int64_t> all(ranks.begin(), ranks.end());
    std::string fix;
    for (const ModulePlan& module : plan_.modules) {
      std::vector<std::int64_t> closed;
      for (const std::int64_t rank : module.ranks)
        closed.push_back(std::ranges::lower_bound(all, rank) - all.begin());
      if (closed != module.ranks)
        fix += str(fix.empty() ? "set " : ", ", "modules.", module.name, ".ranks to ",
                   write_ranks(closed));
    }
    return fix;
  }

  /// Checks that the modules have the ranks from 0 on, so that every process has its work.
  void check_ranks() {
    std::set<std::int64_t> ranks;
    for (const ModulePlan& module : plan_.modules)
      ranks.insert(module.ranks.begin(), module.ranks.end());
    std::int64_t missing = 0;
    while (ranks.contains(missing)) ++missing;
    const std::int64_t last = ranks.empty() ? 0 : *ranks.rbegin();
    require(missing > last, std::string(kBackboneModule), "ranks",
            str("no module has rank ", missing), str("each of the ranks 0 to ", last),
            missing > last ? std::string() : close_gaps(ranks));
  }

  void check_module(const ModulePlan& module) {
    require(has_adapters_ || module.train != TrainMode::kLora, module.name, "train", "lora",
            "full or frozen");
    require(module.share_percent == 100, module.name, "share_percent", str(module.share_percent),
            "100");
    require(module.offload == backbone_.offload, module.name, "offload", "another value",
            "that of the backbone");
    const KnownModule* known = find_known_module(module.name);
    require(known != nullptr, module.name, "placement", "a module of no known model",
            join(known_module_names()));
    if (known == nullptr) return;
    if (known->role == ModuleRole::kProjector)
      return require(module.placement == Placement::kInline, module.name, "placement",
                     "ranks of its own", "inline: in the first stage of the backbone");
    require(is_executed(module.placement), module.name, "placement", plan_name_of(module.placement),
            known->role == ModuleRole::kBackbone ? "separate: ranks of its own"
                                                 : executed_placements());
    require(module.mesh.ep == 1, module.name, "mesh.ep", str(module.mesh.ep), "1");
  }

  /// A colocated module has whole passes. Turns among those of the backbone have whole ones there
  /// too.
  void check_colocated() {
    for (const ModulePlan& module : plan_.modules) {
      if (module.placement != Placement::kColocated) continue;
      require(!splits_backward(module.schedule), module.name, "schedule",
              plan_name_of(module.schedule), "1f1b: its passes have whole backwards",
              "set its schedule to 1f1b");
      require(
          !module.turns || module.train == TrainMode::kFrozen ||
              !splits_backward(backbone_.schedule),
          std::string(kBackboneModule), "schedule", plan_name_of(backbone_.schedule),
          str("gpipe, 1f1b or interleaved beside a ", module.name, " that trains and takes turns"),
          str("set the backbone's schedule to ",
              virtual_stages_of(backbone_.schedule) == 2 ? "interleaved" : "1f1b", ", modules.",
              module.name, ".turns to false, or freeze ", module.name));
    }
  }

  /// Each rank of such a module is a process with the whole tower, whatever the degrees.
  void check_flow(const ModulePlan& module) {
    require(module.name != kBackboneModule, module.name, "placement", "flow",
            "separate: ranks of its own");
    require(module.train != TrainMode::kLora, module.name, "train", "lora",
            "full or frozen beside the run",
            str("leave ", module.name, " without adapters, or give it another placement"));
    const MeshShape& mesh = backbone_.mesh;
    require(module.train == TrainMode::kFrozen || mesh.tp * mesh.cp * mesh.ulysses == 1,
            std::string(kBackboneModule), "mesh", describe(mesh),
            str("tp, cp and ulysses of 1 beside ", module.name, " with placement flow that trains"),
            str("set them to 1, or add ", module.name, " to model.freeze"));
  }

  const Plan& plan_;
  const std::string& where_;
  const ModulePlan& backbone_;
  bool has_adapters_;
  std::vector<ErrorParts> limits_ = {};
};

/// Checks that a module trains which the model has.
void check_any_trains(const Plan& plan, const ModelConfig& model, const std::string& where) {
  std::vector<std::string> names{std::string(kBackboneModule)};
  for (const FrontModule& each : front_modules(model)) names.push_back(each.name);
  const bool any = std::ranges::any_of(names, [&](const std::string& name) {
    const ModulePlan* module = plan.find(name);
    return module == nullptr || module->train != TrainMode::kFrozen;
  });
  TRIB_REQUIRE(any, .what = "train: plan trains no module of the model",
               .where = str(where, " modules"), .found = join(names) + " frozen",
               .expected = "at least one that trains");
}

}  // namespace

std::vector<ErrorParts> trainer_limits(const Plan& plan, const std::string& where,
                                       bool has_adapters) {
  if (plan.find(kBackboneModule) == nullptr)
    return {
        {.what = "train: plan has no backbone", .where = where, .expected = "modules.backbone"}};
  return Limits(plan, where, has_adapters).list();
}

void check_trains(const Plan& plan, const std::string& where, const RunConfig& run,
                  const ModelConfig& model) {
  const RunConfig planned = apply_plan(plan, where, run);
  (void)resolve_mesh(planned.parallel, count_ranks(planned.parallel), model);
  check_plan_of_model(plan, model, where);
  check_any_trains(plan, model, where);
}

}  // namespace tributary::config
