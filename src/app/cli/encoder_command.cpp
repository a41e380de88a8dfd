#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/engine/engine.h"
#include "config/run/stage_configs.h"
#include "core/error.h"

namespace tributary::app {

Run declare_encoder(Verb& verb) {
  const auto options = std::make_shared<EncoderOptions>();
  const auto plan = std::make_shared<std::string>();
  verb.positional("CONFIG.yaml", options->config, "the file that describes the run");
  verb.rest(kKeyWords, options->overrides, "values that replace those of the file, as for `train`");
  verb.option("--plan", *plan, "the plan.json of the run");
  verb.option("--patience", options->patience_seconds,
              "longest wait for the run: for its start, and after it was lost [s]");
  verb.example(
      "tributary encoder run.yaml model.freeze=[vision] parallel.vision.placement=flow\n"
      "  tributary launch -n 2 --encoders 1 -- train run.yaml model.freeze=[vision] "
      "parallel.vision.placement=flow");
  return [options, plan, answer = verb.answer()] {
    TRIB_REQUIRE(options->patience_seconds >= 0, .what = "app: patience below 0",
                 .where = "--patience", .found = str(options->patience_seconds),
                 .expected = "0 or more seconds");
    if (!plan->empty()) options->overrides.push_back("parallel.plan=" + *plan);
    const std::vector<config::RunConfig> stages =
        config::stage_configs(options->config, options->overrides);
    const ExitCode code = load_engine(engine_for(stages.front().run.device)).encoder(*options);
    answer.give({{"exit_code", static_cast<int>(code)}});
    return code;
  };
}

}  // namespace tributary::app
