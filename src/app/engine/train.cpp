#include <iostream>

#include "app/engine/engine_verbs.h"
#include "app/engine/estimate_activations.h"
#include "app/launch/command_words.h"
#include "config/plan/plan.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/text.h"
#include "train/trainer.h"

namespace tributary::app {
namespace {

std::string command_of(const TrainOptions& options) {
  std::string command = options.program + " train " + shell_word(options.config);
  for (const std::string& change : options.overrides) command += " " + shell_word(change);
  return command;
}

std::string describe_resume(const TrainOptions& options) {
  std::string text;
  if (!options.resume.empty()) text += " --resume " + shell_word(options.resume);
  if (!options.fallback.empty()) text += " --fallback " + shell_word(options.fallback);
  for (const std::string& key : options.accepted_changes)
    text += " --accept-change " + shell_word(key);
  if (options.allow_nonfinite) text += " --allow-nonfinite";
  return text;
}

}  // namespace

TrainOutcome run_train(const TrainOptions& options) {
  const config::RunConfig config =
      config::apply_plan(config::read_run_config(options.config, options.overrides));
  config::check_surroundings(config);
  TRIB_REQUIRE(options.fallback.empty() || options.fallback == "previous",
               .what = "train: no such fallback", .where = "--fallback",
               .found = escaped(options.fallback), .expected = "previous");
  const std::string command = command_of(options);
  const train::TrainEnd end = train::train(
      {.config = config,
       .resume = options.resume,
       .fall_back = !options.fallback.empty(),
       .accepted_changes = options.accepted_changes,
       .allow_nonfinite = options.allow_nonfinite,
       .command = command + describe_resume(options),
       .resume_command = command + " --resume auto",
       .estimate_activations =
           [&](const config::MeshShape& mesh) { return estimate_activations(config, mesh); }},
      std::cout);
  return {end.code, end.leads};
}

}  // namespace tributary::app
