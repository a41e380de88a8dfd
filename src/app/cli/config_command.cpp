#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/requests/job_plan.h"
#include "config/reading/yaml_json.h"
#include "config/run/read_run_config.h"
#include "core/error.h"

namespace tributary::app {
namespace {

constexpr std::int64_t kMaxRanks = 65536;

/// errors: Fault::kInput where the stages of the run may have other plans
std::string describe_plan(const config::RunConfig& run, std::int64_t ranks) {
  TRIB_REQUIRE(run.run.stages.empty(), .what = "config: each stage of a run has a plan of its own",
               .where = "run.stages", .found = str(run.run.stages.size(), " stages"),
               .expected = "none", .fix = "set run.stages=[] and the keys of one stage");
  return config::write_plan(plan_of_job(run, ranks));
}

}  // namespace

Run declare_config(Verb& verb) {
  struct Arguments {
    std::vector<std::string> words;
    bool keys = false;
    bool json = false;
    bool plan = false;
    std::int64_t ranks = 0;
  };
  const auto arguments = std::make_shared<Arguments>();
  verb.rest("CONFIG.yaml [key.path=value ...]", arguments->words,
            "file to check, then values that replace its own");
  verb.flag("--keys", arguments->keys, "print every key as Markdown, as docs/configuration.md");
  verb.flag("--json", arguments->json, "print the configuration as one JSON object");
  verb.flag("--plan", arguments->plan,
            "print the plan.json that `train` makes of it: where every module runs");
  verb.option("-n,--ranks", arguments->ranks,
              "with --plan: processes of the run; 0: as few as its degrees allow");
  verb.example(
      "tributary config configs/own_data.yaml run.steps=100\n"
      "  tributary config configs/demo.yaml parallel.vision.placement=separate --plan -n 3");
  return [arguments] {
    const std::vector<std::string>& words = arguments->words;
    TRIB_REQUIRE(arguments->keys + arguments->json + arguments->plan <= 1,
                 .what = "config: there is one form of output",
                 .found = "two of --keys, --json and --plan", .expected = "one of them");
    TRIB_REQUIRE(words.empty() == arguments->keys, .what = "config: nothing to do",
                 .found = arguments->keys ? "a file and --keys" : "no file",
                 .expected = "a configuration file, or --keys alone");
    TRIB_REQUIRE(arguments->plan || arguments->ranks == 0, .what = "app: option without --plan",
                 .where = "-n", .found = str(arguments->ranks), .expected = "--plan beside it");
    TRIB_REQUIRE(arguments->ranks >= 0 && arguments->ranks <= kMaxRanks,
                 .what = "app: number of ranks", .where = "-n", .found = str(arguments->ranks),
                 .expected = str("1 to ", kMaxRanks));
    if (arguments->keys) {
      std::cout << config::describe_keys();
      return ExitCode::kDone;
    }
    const config::RunConfig run =
        config::read_run_config(words.front(), std::span(words).subspan(1));
    if (arguments->plan)
      std::cout << describe_plan(run, arguments->ranks);
    else if (arguments->json)
      std::cout << config::parse_yaml_as_json(config::write_run_config(run), words.front()).dump(1)
                << "\n";
    else
      std::cout << config::write_run_config(run);
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
