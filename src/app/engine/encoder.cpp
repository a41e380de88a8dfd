#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "app/engine/engine_verbs.h"
#include "config/plan/plan.h"
#include "config/run/read_run_config.h"
#include "config/run/stage_configs.h"
#include "core/error.h"
#include "core/launch_variables.h"
#include "train/encode_for_run.h"
#include "train/start/session.h"
#include "train/summary.h"

namespace tributary::app {
namespace {

/// The stages that want encoders and are not done.
std::vector<config::RunConfig> list_stages(const EncoderOptions& options) {
  std::vector<config::RunConfig> stages = config::stage_configs(options.config, options.overrides);
  for (config::RunConfig& stage : stages)
    stage = config::apply_plan(train::resolve_adapter(std::move(stage)));
  const bool any = std::ranges::any_of(
      stages, [](const auto& each) { return each.parallel.has_encoders_beside(); });
  TRIB_REQUIRE(any, .what = "app: run has no encoders beside it", .where = "parallel",
               .expected = "a module with placement flow",
               .fix = "set parallel.vision.placement=flow, of the run too");
  std::erase_if(stages, [&](const config::RunConfig& stage) {
    const bool is_done =
        stages.size() > 1 && train::has_ended(train::RunDirectory{config::run_directory(stage)});
    return is_done || !stage.parallel.has_encoders_beside();
  });
  return stages;
}

/// The number of this process's device, behind those of the ranks of a launcher.
int local_rank() {
  const char* given = std::getenv(kEncoderDeviceVariable);
  return given == nullptr ? 0 : std::atoi(given);
}

}  // namespace

ExitCode run_encoder(const EncoderOptions& options) {
  const std::vector<config::RunConfig> stages = list_stages(options);
  if (stages.empty()) return ExitCode::kDone;
  const train::StopRequest stop(std::chrono::seconds(stages.front().stability.stop_grace_seconds),
                                "the steps that this encoder has work of");
  for (const config::RunConfig& stage : stages) {
    const train::EncoderOptions encoding{
        .patience = std::chrono::seconds(options.patience_seconds),
        .local_rank = local_rank(),
        .waits_first = &stage != stages.data()};  // for the weights of the stage before
    const ExitCode code = train::encode_for_run(stage, encoding, stop, std::cout);
    if (code != ExitCode::kDone || stop.asked()) return code;
  }
  return ExitCode::kDone;
}

}  // namespace tributary::app
