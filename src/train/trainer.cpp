#include "train/trainer.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "config/read_run_config.h"
#include "core/error.h"
#include "core/log.h"
#include "train/loop.h"
#include "train/metrics/environment.h"
#include "train/run/snapshot.h"
#include "train/run/summary.h"

namespace tributary::train {
namespace {

/// The checkpoint to go on from; empty for a fresh run.
std::string choose_checkpoint(const TrainRequest& request, const std::string& checkpoints) {
  if (!request.resume.empty() && request.resume != "auto") return find_checkpoint(request.resume);
  const std::string newest = newest_checkpoint(checkpoints).value_or("");
  TRIB_REQUIRE(newest.empty() || !request.resume.empty(),
               .what = "train: the run directory already holds a run", .where = "run.dir",
               .found = newest, .expected = "a directory without checkpoints",
               .fix = "add --resume auto to go on from it, or set run.dir to another directory");
  return newest;
}

}  // namespace

ExitCode train(const TrainRequest& request, std::ostream& out) {
  const config::RunConfig& config = request.config;
  const RunDirectory run{config::run_directory(config)};
  const std::string checkpoint = choose_checkpoint(request, run.checkpoints());
  if (checkpoint.empty()) std::filesystem::remove(run.file("quarantine.jsonl"));
  const Stopwatch start;
  Session session = open_session(config, run.file("quarantine.jsonl"));
  TrainState state;
  if (!checkpoint.empty()) state = restore_snapshot(session, checkpoint);

  create_run_directory(run, config);
  cut_run_files(run, state.step);
  Json environment = describe_environment(config.run.device, request.command);
  const double peak_flops =
      config.metrics.peak_flops > 0 ? config.metrics.peak_flops : measure_peak_flops();
  environment["peak_flops"] = peak_flops;
  environment["peak_flops_from"] = config.metrics.peak_flops > 0
                                       ? "metrics.peak_flops"
                                       : "fastest of 8 f32 products of 1024 x 1024 matrices";
  environment["parameters"] = config::count_parameters(session.model_config);
  write_run_file(run, "environment.json", environment.dump(2) + "\n");

  if (!checkpoint.empty()) out << "resuming from " << checkpoint << "\n";
  out << "model with " << config::count_parameters(session.model_config) << " parameters, "
      << session.loader->records() << " training records, ready after "
      << describe_seconds(start.seconds()) << std::endl;

  Loop loop(session, run, state, peak_flops, out);
  const Loop::End end = loop.run();
  write_summary(run, session, loop, end);
  switch (end) {
    case Loop::End::kTerminated:
      out << "stopped after step " << loop.state().step << "; go on with:\n  "
          << request.resume_command << std::endl;
      return ExitCode::kTerminated;
    case Loop::End::kNonFinite:
      log_note(str("train: stopped: ", loop.state().skips_in_a_row,
                   " steps in a row were not finite; the last sample keys are in ",
                   run.file("skipped.jsonl")));
      return ExitCode::kNonFinite;
    case Loop::End::kDone:
      break;
  }
  print_results(out, session, *loop.final_result());
  return ExitCode::kDone;
}

}  // namespace tributary::train
