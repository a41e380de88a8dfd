#include <iostream>

#include "app/engine/engine_verbs.h"
#include "config/read_run_config.h"
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

}  // namespace

ExitCode run_train(const TrainOptions& options) {
  const config::RunConfig config = config::read_run_config(options.config, options.overrides);
  config::check_surroundings(config);
  const std::string command = command_of(options);
  return train::train(
      {.config = config,
       .resume = options.resume,
       .command = options.resume.empty() ? command : command + " --resume " + options.resume,
       .resume_command = command + " --resume auto"},
      std::cout);
}

}  // namespace tributary::app
