#include "app/compare/method_runs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "app/launch/command_words.h"
#include "app/launch/run_ranks.h"
#include "app/report/compare_runs.h"
#include "core/error.h"
#include "core/log.h"

namespace tributary::app {
namespace {

/// Runs a job to its end; a signal ends the command too.
JobEnd run_to_end(LaunchOptions options) {
  options.command = own_program_words();
  JobEnd end = run_once(options);
  if (end.was_signalled)
    TRIB_RAISE(Fault::kResource, .what = "app: a signal ended the comparison", .found = end.cause,
               .expected = "all runs to their end",
               .fix = "start it again: what was measured of the profile is kept",
               .exit = ExitCode::kTerminated);
  return end;
}

/// The losses and the step of a run that ended well.
struct MeasuredRun {
  double step_s = 0;  // median, without the warm-up
  std::vector<double> losses = {};
};

MeasuredRun read_measured(const std::string& directory, const config::StudyRun& study) {
  const RunRecord record = read_run(directory);
  TRIB_REQUIRE(std::ssize(record.steps) == study.steps, .what = "app: run has other steps",
               .where = directory + "/metrics.jsonl", .found = str(record.steps.size()),
               .expected = str(study.steps));
  MeasuredRun run;
  std::vector<double> seconds;
  for (const StepRecord& step : record.steps) {
    run.losses.push_back(step.loss.value_or(std::nan("")));
    if (step.step > study.warm_up_steps) seconds.push_back(wall_seconds(step));
  }
  run.step_s = *studies::MethodRun{.rounds_s = std::move(seconds)}.median_s();
  return run;
}

/// The max of |a - b| / |b| over the steps in which both have a loss.
double largest_difference(const std::vector<double>& losses, const std::vector<double>& first) {
  double largest = 0;
  for (std::size_t i = 0; i < std::min(losses.size(), first.size()); ++i)
    if (std::isfinite(losses[i]) && std::isfinite(first[i]) && first[i] != 0)
      largest = std::max(largest, std::abs(losses[i] - first[i]) / std::abs(first[i]));
  return largest;
}

/// Removes the run that an earlier comparison left in a directory; anything else stays.
void remove_earlier_run(const std::string& directory) {
  if (!std::filesystem::exists(directory + "/config.yaml")) return;
  std::error_code failure;
  std::filesystem::remove_all(directory, failure);
  if (failure)
    TRIB_RAISE(Fault::kResource, .what = "app: an earlier run cannot be removed",
               .where = directory, .found = failure.message(),
               .fix = "remove it, or give --work another folder");
}

/// The runs of a job, one after another.
class JobRuns {
 public:
  explicit JobRuns(const StudyJob& job) : job_(job) {}

  void run(const std::string& method, std::int64_t round, studies::MethodRun& to) {
    to.directory = str(job_.folder, "/", method, "-", round);
    remove_earlier_run(to.directory);
    LaunchOptions options{.ranks = job_.setting->devices,
                          .words = {"train", job_.setting->run->config},
                          .limits = {}};
    options.words.insert(options.words.end(), job_.values.begin(), job_.values.end());
    options.words.push_back("run.dir=" + to.directory);
    options.words.push_back("parallel.plan=" + to.plan_file);
    const JobEnd end = run_to_end(options);
    if (end.exit_code != 0) {
      to.failure = end.cause;
      to.exit_code = end.exit_code;
      log_note(str("compare: ", method, " failed in round ", round, ": ", end.cause));
      return;
    }
    const MeasuredRun measured = read_measured(to.directory, *job_.setting->run);
    to.rounds_s.push_back(measured.step_s);
    if (first_losses_.empty()) first_losses_ = measured.losses;
    to.loss_difference =
        std::max(to.loss_difference, largest_difference(measured.losses, first_losses_));
  }

 private:
  const StudyJob& job_;
  std::vector<double> first_losses_;
};

}  // namespace

void measure_profile(const StudyJob& job, const std::string& profile) {
  LaunchOptions options{
      .ranks = 1, .words = {"profile", job.setting->run->config}, .limits = {}, .are_ranks = false};
  options.words.insert(options.words.end(), job.values.begin(), job.values.end());
  options.words.insert(options.words.end(), {"-o", profile, "--ranks", str(job.setting->devices)});
  const JobEnd end = run_to_end(options);
  if (end.exit_code == 0) return;
  TRIB_RAISE(
      Fault::kResource, .what = "app: profile could not be measured", .where = profile,
      .found = end.cause, .expected = "the times of this machine, by which methods are simulated",
      .fix = "mend that, or give --profile FILE", .exit = static_cast<ExitCode>(end.exit_code));
}

void run_methods(const StudyJob& job, std::int64_t rounds,
                 std::vector<studies::MethodResult>& methods, const OnRun& on_run) {
  JobRuns runs(job);
  const auto runs_itself = [](const studies::MethodRun& run) {
    return run.not_run.empty() && run.same_as.empty() && run.failure.empty();
  };
  for (std::int64_t round = 1; round <= rounds; ++round)
    for (studies::MethodResult& method : methods) {
      if (!runs_itself(*method.run)) continue;
      if (on_run) on_run(method.method, round);
      runs.run(method.method, round, *method.run);
    }
  for (studies::MethodResult& method : methods) {
    const std::string& same_as = method.run->same_as;
    if (same_as.empty()) continue;
    const auto other = std::ranges::find(methods, same_as, &studies::MethodResult::method);
    method.run = other->run;
    method.run->same_as = other->method;
  }
}

}  // namespace tributary::app
