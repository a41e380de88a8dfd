#include "config/family/known_modules.h"
#include "config/plan/plan.h"
#include "config/reading/problems.h"

namespace tributary::config {
namespace {

/// Checks that the stages hold all layers; a module without stages holds them on one.
void check_layers(const ModulePlan& module, std::int64_t layers, bool has_ends,
                  const std::string& file, Problems& problems) {
  if (module.stages.empty()) return;
  std::int64_t found = 0;
  for (const StageLayers& stage : module.stages) found += stage.layers;
  const bool ends = module.stages.front().embed && module.stages.back().head;
  if (found == layers && (ends || !has_ends)) return;
  problems.add({.what = "config: stages do not hold the layers of the model",
                .where = str(file, " modules.", module.name, ".stages"),
                .found = str(found, " layers", ends ? ", embed and head" : ""),
                .expected = str(layers, " layers", has_ends ? ", embed and head" : "")});
}

/// Checks that a plan has every module of its model, each with its one edge.
void check_front(const Plan& plan, std::span<const FrontModule> front, const std::string& file,
                 Problems& problems) {
  std::vector<EdgePlan> others = plan.edges;
  for (const FrontModule& module : front) {
    const auto is_its = [&](const EdgePlan& edge) {
      return edge.from == module.name && edge.to == module.feeds;
    };
    if (plan.find(module.name) == nullptr)
      problems.add({.what = "config: plan lacks a module of the model",
                    .where = str(file, " modules"),
                    .found = str("no module ", module.name),
                    .expected = str("modules.", module.name),
                    .fix = "add it, with placement inline where it has no ranks of its own"});
    else if (std::erase_if(others, is_its) == 0)
      problems.add({.what = "config: plan lacks an edge of the model",
                    .where = str(file, " edges"),
                    .found = str("none from ", module.name, " to ", module.feeds),
                    .expected = "each encoder to its projector, and that to the backbone",
                    .fix = str("add an edge from ", module.name, " to ", module.feeds)});
  }
  for (const EdgePlan& edge : others)
    if (find_module(front, edge.from) != nullptr)
      problems.add({.what = "config: plan has an edge that the model lacks",
                    .where = str(file, " edges"),
                    .found = str(edge.from, " to ", edge.to),
                    .expected = "each encoder to its projector, and that to the backbone",
                    .fix = str("let it go to ", find_module(front, edge.from)->feeds)});
}

}  // namespace

void check_plan_of_model(const Plan& plan, const ModelConfig& model, const std::string& where) {
  Problems problems;
  const std::vector<FrontModule> front = front_modules(model);
  std::string names(kBackboneModule);
  for (const FrontModule& each : front) names += ", " + each.name;
  for (const ModulePlan& module : plan.modules) {
    const FrontModule* of_model = find_module(front, module.name);
    if (module.name == kBackboneModule)
      check_layers(module, model.backbone.layers, true, where, problems);
    else if (of_model == nullptr)
      problems.add({.what = "config: plan has a module that the model lacks",
                    .where = str(where, " modules.", path_part(module.name)),
                    .found = front.empty() ? "a text model" : "a model of " + names,
                    .expected = front.empty() ? "only backbone" : "no other module"});
    else if (of_model->is_encoder())
      check_layers(module, of_model->layers, false, where, problems);
  }
  check_front(plan, front, where, problems);
  problems.raise_if_any(where);
}

}  // namespace tributary::config
