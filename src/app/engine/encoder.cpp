#include <iostream>

#include "app/engine/engine_verbs.h"
#include "config/plan/plan.h"
#include "config/run/stage_configs.h"
#include "train/encode_for_run.h"
#include "train/start/session.h"

namespace tributary::app {

ExitCode run_encoder(const EncoderOptions& options) {
  for (const config::RunConfig& stage : config::stage_configs(options.config, options.overrides)) {
    const ExitCode code = train::encode_for_run(
        config::apply_plan(train::resolve_adapter(stage)),
        {.patience = std::chrono::seconds(options.patience_seconds)}, std::cout);
    if (code != ExitCode::kDone) return code;
  }
  return ExitCode::kDone;
}

}  // namespace tributary::app
