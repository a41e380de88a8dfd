#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/export/mlflow_store.h"
#include "app/export/wandb_file.h"
#include "core/error.h"

namespace tributary::app {

Run declare_metrics_export(Verb& verb) {
  struct Arguments {
    std::string run;
    std::string mlflow;
    std::string wandb;
    std::string project = "tributary";
  };
  const auto arguments = std::make_shared<Arguments>();
  verb.positional("RUN_DIR", arguments->run, "directory of a run, for example runs/demo");
  verb.option("--mlflow", arguments->mlflow,
              "directory of a file store of MLflow, new or with other runs");
  verb.option("--wandb", arguments->wandb,
              "directory for a run as W&B keeps it offline, which `wandb sync` uploads");
  verb.option("--project", arguments->project, "project of W&B, experiment of MLflow");
  verb.example(
      "tributary metrics export runs/demo --mlflow mlruns\n"
      "  tributary metrics export runs/demo --wandb wandb");
  return [arguments, answer = verb.answer()] {
    TRIB_REQUIRE(!arguments->mlflow.empty() || !arguments->wandb.empty(),
                 .what = "metrics: nothing to write", .where = "metrics export",
                 .found = "neither --mlflow nor --wandb", .expected = "at least one of them");
    TRIB_REQUIRE(!arguments->project.empty(), .what = "metrics: no name", .where = "--project",
                 .found = "an empty text", .expected = "the name of a project");
    const RunHistory history = read_history(arguments->run);
    Json written;
    try {
      if (!arguments->mlflow.empty())
        written["mlflow"] = write_mlflow_run(history, arguments->mlflow, arguments->project);
      if (!arguments->wandb.empty())
        written["wandb"] = write_wandb_run(history, arguments->wandb, arguments->project);
    } catch (const std::filesystem::filesystem_error& error) {
      TRIB_RAISE(Fault::kResource, .what = "metrics: file cannot be written",
                 .where = error.path1().string(), .found = error.code().message());
    }
    for (const auto& [tracker, path] : written.items())
      std::cout << path.get<std::string>() << "\n";
    answer.give(written);
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
