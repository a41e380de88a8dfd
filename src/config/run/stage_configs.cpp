#include "config/run/stage_configs.h"

#include "config/run/read_run_config.h"
#include "core/error.h"

namespace tributary::config {
namespace {

/// The settings of a stage: what the command line says holds for all of them.
std::vector<std::string> settings_of(const StageSection& stage,
                                     std::span<const std::string> overrides) {
  std::vector<std::string> settings = stage.set;
  settings.insert(settings.end(), overrides.begin(), overrides.end());
  for (const std::string& each : stage.set)
    TRIB_REQUIRE(!each.starts_with("run.stages") && !each.starts_with("run.dir="),
                 .what = "config: a stage cannot change this key",
                 .where = str("run.stages, ", stage.name), .found = each,
                 .expected = "another key; each stage has its own directory in run.dir");
  return settings;
}

}  // namespace

std::vector<RunConfig> stage_configs(const std::string& path,
                                     std::span<const std::string> overrides) {
  const RunConfig whole = read_run_config(path, overrides);
  if (whole.run.stages.empty()) return {whole};
  std::vector<RunConfig> stages;
  for (const StageSection& stage : whole.run.stages) {
    RunConfig config = read_run_config(path, settings_of(stage, overrides));
    config.run.stages.clear();
    config.run.dir = str(run_directory(whole), "/", stages.size() + 1, "-", stage.name);
    const bool goes_on = config.model.weights == whole.model.weights &&
                         config.model.checkpoint == whole.model.checkpoint;
    if (!stages.empty() && goes_on) {
      config.model.weights = Weights::kCheckpoint;
      config.model.checkpoint = stages.back().run.dir;
    }
    stages.push_back(std::move(config));
  }
  return stages;
}

void check_stage(RunConfig stage, bool is_first) {
  if (!is_first) stage.model.checkpoint.clear();
  check_surroundings(stage);
}

}  // namespace tributary::config
