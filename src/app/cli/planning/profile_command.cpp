#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ranges>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/output_file.h"
#include "app/engine/engine.h"
#include "app/launch/run_ranks.h"
#include "app/requests/measured_machine.h"
#include "config/artifact/profile.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/machine/cores.h"

namespace tributary::app {
namespace {

struct ProfileArguments {
  ProfileOptions options;
  std::int64_t ranks = 0;
  bool here = false;
};

/// The default maximum: one rank on CUDA; on a CPU twice the cores, so that some share one.
std::int64_t max_ranks(const ProfileArguments& arguments, bool on_cuda) {
  if (arguments.ranks > 0) return arguments.ranks;
  return on_cuda ? 1
                 : std::min<std::int64_t>(8, 2 * std::max(1U, std::thread::hardware_concurrency()));
}

/// 1, 2, 4, ... up to `max`.
std::vector<std::int64_t> numbers_of_ranks(std::int64_t max) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t ranks = 1; ranks <= max; ranks *= 2) numbers.push_back(ranks);
  return numbers;
}

/// The command line of each rank of a measurement.
std::vector<std::string> words_of(const ProfileArguments& arguments, std::int64_t fewest) {
  std::vector<std::string> words{"profile", arguments.options.config};
  words.insert(words.end(), arguments.options.overrides.begin(), arguments.options.overrides.end());
  words.insert(words.end(), {"-o", arguments.options.output, "--here", "--fewest", str(fewest)});
  return words;
}

/// Refuses, before anything is measured, an output that cannot be written or that is another kind
/// of file.
///
/// errors: Fault::kInput as read_profile; Fault::kResource where the file cannot be written
void check_profile(const std::string& path, const std::string& config) {
  check_output(path, {config});
  if (std::filesystem::exists(path)) (void)config::read_profile(path);
}

ExitCode run_profile_jobs(const ProfileArguments& arguments, const Answer& answer) {
  TRIB_REQUIRE(arguments.ranks >= 0 && arguments.ranks <= 4096, .what = "app: number of ranks",
               .where = "--ranks", .found = str(arguments.ranks), .expected = "1 to 4096, or 0");
  TRIB_REQUIRE(arguments.options.fewest >= 0 && (arguments.here || arguments.options.fewest == 0),
               .what = "app: number of ranks", .where = "--fewest",
               .found = str(arguments.options.fewest), .expected = "1 or more, with --here; or 0");
  config::RunConfig config =
      config::read_run_config(arguments.options.config, arguments.options.overrides);
  const bool on_cuda = engine_for(config.run.device) == EngineKind::kCuda;
  if (arguments.here) return load_engine(engine_for(config.run.device)).profile(arguments.options);
  check_profile(arguments.options.output, arguments.options.config);
  config.batch.costs = {};  // it may be what is to be measured
  config::check_surroundings(config);
  const auto threads = [&](std::int64_t ranks) {
    return compute_threads(config.run.threads, ranks);
  };
  const std::vector<std::int64_t> numbers = numbers_of_ranks(max_ranks(arguments, on_cuda));
  for (const std::int64_t ranks : std::views::reverse(numbers)) {
    // One job measures all numbers of ranks that have the same number of threads.
    const std::int64_t fewest = *std::ranges::find_if(
        numbers, [&](std::int64_t fewer) { return threads(fewer) == threads(ranks); });
    const int code =
        run_ranks({.ranks = ranks, .words = words_of(arguments, fewest), .limits = {}});
    if (code != 0) return static_cast<ExitCode>(code);
  }
  const config::Profile profile = config::read_profile(arguments.options.output);
  std::cout << arguments.options.output << ": " << profile.layers.size() << " tables of layers, "
            << profile.collectives.size() << " of collectives\n";
  const std::string note = note_on_noise(profile, arguments.options.output);
  if (!note.empty()) std::cout << note << '\n';
  answer.give({{"output", arguments.options.output},
               {"layer_tables", profile.layers.size()},
               {"collective_tables", profile.collectives.size()},
               {"noise", note}});
  return ExitCode::kDone;
}

}  // namespace

Run declare_profile(Verb& verb) {
  const auto arguments = std::make_shared<ProfileArguments>();
  verb.positional("CONFIG.yaml", arguments->options.config, "the file that describes the run");
  verb.rest(kKeyWords, arguments->options.overrides,
            "values that replace those of the file, for example run.threads=1");
  verb.required("-o,--output", arguments->options.output,
                "profile to write; what it holds already is not measured again");
  verb.option("--ranks", arguments->ranks,
              "most processes to measure with, in powers of two; 0: twice the cores, at most 8, or "
              "one on a device");
  verb.option("--fewest", arguments->options.fewest,
              "with --here: measure fewer of the job's processes at work too, half as many down to "
              "so many, in turns with all; 0: all alone");
  verb.flag("--here", arguments->here,
            "measure in this process, or those of its job, alone: for `tributary launch`");
  verb.example("tributary profile configs/demo.yaml -o profile.json");
  return [arguments, answer = verb.answer()] { return run_profile_jobs(*arguments, answer); };
}

}  // namespace tributary::app
