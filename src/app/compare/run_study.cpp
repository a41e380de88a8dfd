#include "app/compare/run_study.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "app/compare/method_runs.h"
#include "app/compare/study_job.h"
#include "app/requests/trainer_check.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/log.h"
#include "studies/compare/judge_runs.h"

namespace tributary::app {
namespace {

constexpr const char* kNotWritten = "app: file cannot be written";

using studies::MethodResult;
using studies::PlanToRun;
using studies::SettingResult;

/// The path of a model relative to the folder of a plan.
std::string model_seen_from(const std::string& folder, const std::string& model) {
  const auto whole = [](const std::string& path) {
    return std::filesystem::absolute(path).lexically_normal();
  };
  return whole(model).lexically_relative(whole(folder)).string();
}

/// Writes the plan of a method, and tells which method before it has the same.
class PlanFiles {
 public:
  explicit PlanFiles(const StudyJob& job) : job_(job) {}

  studies::MethodRun write(const PlanToRun& made) {
    studies::MethodRun run{.not_run = made.reason};
    if (!made.plan) return run;
    config::Plan plan = *made.plan;
    const auto [same, is_new] = methods_.try_emplace(config::plan_digest(plan), made.method);
    if (!is_new) run.same_as = same->second;
    plan.model = model_seen_from(job_.folder, job_.run.model.path);
    run.plan_file = str(job_.folder, "/", made.method, ".plan.json");
    config::check_plan(plan, run.plan_file);
    write_given_file(run.plan_file, config::write_plan(plan), {.what = kNotWritten});
    return run;
  }

 private:
  const StudyJob& job_;
  std::map<std::string, std::string> methods_;  // by the digest of their plan
};

void make_folder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    TRIB_RAISE(Fault::kResource, .what = "app: folder of runs cannot be made", .where = folder,
               .found = failure.message(), .fix = "give --work another one");
}

std::vector<MethodResult> results_of(const StudyJob& job, const std::vector<PlanToRun>& plans,
                                     bool knows_peak) {
  PlanFiles files(job);
  std::vector<MethodResult> methods;
  for (const PlanToRun& made : plans) {
    MethodResult& method = methods.emplace_back();
    method.method = made.method;
    method.source = made.source;
    method.run = files.write(made);
    method.certificate.limit = made.reason;
    if (!made.plan) continue;
    method.certificate.status = plan::Status::kFeasible;
    method.certificate.value = made.simulated;
    method.plan = made.text;
    method.step_s = seconds_of(made.simulated);
    method.mfu = knows_peak ? made.mfu : 0;
  }
  return methods;
}

void check_any_runs(const std::vector<MethodResult>& methods, const std::string& where) {
  if (std::ranges::any_of(methods, [](const auto& each) { return each.run->not_run.empty(); }))
    return;
  std::string reasons;
  for (const MethodResult& method : methods)
    reasons += str(reasons.empty() ? "" : "; ", method.method, ": ", method.run->not_run);
  TRIB_RAISE(Fault::kInput, .what = "app: no method of the setting runs", .where = where,
             .found = reasons, .expected = "a method with a plan that `train` accepts",
             .fix = "add `search` to `methods`");
}

double mean_of(const StudyJob& job, std::int64_t (*count)(const simulate::SampleSize&)) {
  std::int64_t sum = 0;
  std::int64_t samples = 0;
  for (const std::vector<SampleShape>& batch : job.batches)
    for (const SampleShape& shape : batch) {
      sum += count(simulate::size_of(shape));
      ++samples;
    }
  return static_cast<double>(sum) / static_cast<double>(std::max<std::int64_t>(1, samples));
}

/// Profiles, plans and runs a setting.
SettingResult run_setting(const config::Study& study, const StudyJob& job,
                          const RunStudyOptions& options) {
  const config::StudySetting& setting = *job.setting;
  const auto say = [&](const std::string& text) {
    log_note(str("compare: ", setting.name, ": ", text));
  };
  std::string profile = options.profile;
  if (profile.empty()) {
    profile = job.folder + "/profile.json";
    say(str("measuring ", setting.devices, " processes: ", profile));
    measure_profile(job, profile);
  }
  const MeasuredJob measured = measured_job(job, profile);
  const TrainerCheck trainer({.text = job.run.model.path}, job.run);
  const std::vector<PlanToRun> plans = studies::plans_to_run(
      study, setting, measured.problem, job.batches,
      [&](const config::Plan& plan) { return trainer.refusal_of(plan); },
      [&](std::string_view method) { say(str("planning ", method)); });
  SettingResult result{.name = setting.name,
                       .model = setting.model.name,
                       .cluster = measured.problem.cluster.name,
                       .devices = setting.devices,
                       .global_samples = setting.global_samples};
  result.tokens_per_sample = mean_of(job, [](const auto& size) { return size.tokens; });
  result.items_per_sample = mean_of(job, [](const auto& size) { return size.items + size.clips; });
  result.methods = results_of(job, plans, measured.knows_peak);
  check_any_runs(result.methods, str(options.where, " settings ", setting.name));
  run_methods(job, options.rounds, result.methods,
              [&](const std::string& method, std::int64_t round) {
                say(str("round ", round, " of ", options.rounds, ": ", method));
              });
  result.run = studies::SettingRun{.rounds = options.rounds,
                                   .steps = setting.run->steps,
                                   .warm_up_steps = setting.run->warm_up_steps,
                                   .config = setting.run->config,
                                   .profile = profile,
                                   .note = measured.note,
                                   .order = studies::judge_pairs(result)};
  return result;
}

}  // namespace

RunStudy run_study(const config::Study& study, const RunStudyOptions& options) {
  const std::vector<StudyJob> jobs = study_jobs(study, options.where, options.folder);
  RunStudy ended{.comparison = {.name = study.name,
                                .source = study.source,
                                .notes = study.notes,
                                .against = study.against}};
  for (const StudyJob& job : jobs) make_folder(job.folder);
  for (const StudyJob& job : jobs)
    ended.comparison.settings.push_back(run_setting(study, job, options));
  studies::judge_figures(study, ended.comparison);
  studies::judge_measured(study, ended.comparison);
  for (const SettingResult& setting : ended.comparison.settings)
    for (const MethodResult& method : setting.methods)
      if (ended.code == ExitCode::kDone) ended.code = static_cast<ExitCode>(method.run->exit_code);
  return ended;
}

}  // namespace tributary::app
