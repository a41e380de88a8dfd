#include <iostream>

#include "app/engine/engine_verbs.h"
#include "config/plan.h"
#include "config/read_run_config.h"
#include "core/error.h"
#include "core/text.h"
#include "train/trainer.h"

namespace tributary::app {
namespace {

/// A word of a command line, quoted where the shell would read it otherwise.
std::string quoted(const std::string& word) {
  const bool plain = word.find_first_not_of(
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                         "_-+=./,:@%") == std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : str(letter);
  return text + "'";
}

std::string command_of(const TrainOptions& options) {
  std::string command = "tributary train " + quoted(options.config);
  for (const std::string& change : options.overrides) command += " " + quoted(change);
  return command;
}

std::string describe_resume(const TrainOptions& options) {
  std::string text;
  if (!options.resume.empty()) text += " --resume " + quoted(options.resume);
  if (!options.fallback.empty()) text += " --fallback " + quoted(options.fallback);
  for (const std::string& key : options.accepted_changes) text += " --accept-change " + quoted(key);
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
  const train::TrainEnd end = train::train({.config = config,
                                            .resume = options.resume,
                                            .fall_back = !options.fallback.empty(),
                                            .accepted_changes = options.accepted_changes,
                                            .allow_nonfinite = options.allow_nonfinite,
                                            .command = command + describe_resume(options),
                                            .resume_command = command + " --resume auto"},
                                           std::cout);
  return {end.code, end.leads};
}

}  // namespace tributary::app
