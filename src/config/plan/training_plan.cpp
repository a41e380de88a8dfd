#include <algorithm>

#include "config/plan/plan.h"
#include "config/plan/plan_names.h"
#include "config/run/run_config.h"

namespace tributary::config {

TrainingPlan training_of(const RunConfig& run) {
  TrainingPlan training{.optimizer = run.optimizer.kind, .averages = run.optimizer.ema_decay > 0};
  const AdapterSection& adapter = run.model.adapter;
  if (run.model.has_adapters())
    training.adapter = {.kind = adapter.kind, .rank = adapter.rank, .targets = adapter.targets};
  return training;
}

ModelSection section_of(const Plan& plan) {
  ModelSection section;
  section.adapter.kind = plan.training.adapter.kind;
  section.adapter.rank = plan.training.adapter.rank;
  section.adapter.targets = plan.training.adapter.targets;
  for (const ModulePlan& module : plan.modules)
    if (module.train == TrainMode::kFrozen) section.freeze.push_back(module.name);
  return section;
}

std::string adapter_key(const ModelSection& section) {
  if (!section.has_adapters()) return {};
  const AdapterSection& adapter = section.adapter;
  std::string text = str(plan_name_of(adapter.kind), ", rank ", adapter.rank);
  const auto add = [&text](const char* words, std::vector<std::string> names) {
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) text += str(&name == names.data() ? words : ", ", name);
  };
  add(", on ", adapter.targets);
  add("; frozen ", section.freeze);
  return text;
}

}  // namespace tributary::config
