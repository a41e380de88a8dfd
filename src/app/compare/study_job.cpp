#include "app/compare/study_job.h"

#include <algorithm>
#include <filesystem>

#include "app/compare/batches_of_run.h"
#include "app/requests/measured_machine.h"
#include "config/family/model_config.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/join.h"
#include "core/machine/cores.h"
#include "data/loader/encode_sample.h"

namespace tributary::app {
namespace {

constexpr std::int64_t kProcessesPerCore = 4;

/// What measuring sets in place of the run configuration: nothing is validated or saved between
/// steps, and the longest sample does not depend on the plan's capacity.
std::vector<std::string> values_of(const config::StudySetting& setting) {
  const config::StudyRun& run = *setting.run;
  std::vector<std::string> values = run.values;
  for (const std::string& value :
       {str("run.steps=", run.steps), str("batch.global_samples=", setting.global_samples),
        str("model.freeze=[", join(setting.frozen), "]"), str("validation.every=0"),
        str("validation.blind=false"), str("validation.final_samples_per_source=1"),
        str("validation.max_new_tokens=1"), str("checkpoint.every=0"),
        str("checkpoint.keep_best=false"), str("metrics.tensorboard=false"),
        str("metrics.console_every=1000000"), str("metrics.update_norms_every=0")})
    values.push_back(value);
  return values;
}

void check_processes(const config::StudySetting& setting, const config::RunConfig& run,
                     const std::string& where) {
  if (run.run.device != "cpu") return;  // the trainer counts other devices
  const std::int64_t cores = std::ssize(usable_cores());
  TRIB_REQUIRE(
      setting.devices <= kProcessesPerCore * cores,
      .what = "app: setting has more processes than this machine runs",
      .where = str(where, " settings ", setting.name, " devices"),
      .found = str(setting.devices, " on ", cores, cores == 1 ? " core" : " cores"),
      .expected = str("at most ", kProcessesPerCore, " a core, ", kProcessesPerCore * cores),
      .fix = "leave out --run, which simulates it; or give it fewer devices");
}

void check_model(const config::StudySetting& setting, const config::RunConfig& run,
                 const config::ModuleGraph& model, const std::string& where) {
  const bool is_same = model.modules == setting.model.modules && model.edges == setting.model.edges;
  TRIB_REQUIRE(is_same, .what = "app: setting and its run have different models",
               .where = str(where, " settings ", setting.name, " run.config"),
               .found = str("model.path ", run.model.path),
               .expected = str("the model `", setting.model.name, "` of the study"),
               .fix = "name in `models` the directory of the run's model");
}

StudyJob read_job(const config::StudySetting& setting, const std::string& where,
                  const std::string& folder) {
  StudyJob job{.setting = &setting, .folder = folder, .values = values_of(setting)};
  job.values.push_back("run.dir=" + folder);
  job.run = config::read_run_config(setting.run->config, job.values);
  config::check_surroundings(job.run);
  const Tokens longest =
      data::max_tokens_of(job.run, config::read_model_config(job.run.model.path).backbone);
  job.values.push_back(str("data.max_tokens=", longest.count));
  job.run.data.max_tokens = longest.count;
  check_processes(setting, job.run, where);
  job.model = config::read_graph_of_model(job.run.model.path);
  check_model(setting, job.run, job.model, where);
  job.batches = batches_of_run(job.run, setting.run->steps);
  return job;
}

/// The cluster and the devices of a setting, for a message.
std::string describe(const config::StudySetting& setting) {
  return str(setting.name, ": ", setting.devices, " of ", setting.cluster.name);
}

}  // namespace

std::vector<StudyJob> study_jobs(const config::Study& study, const std::string& where,
                                 const std::string& folder) {
  std::vector<StudyJob> jobs;
  for (std::size_t i = 0; i < study.settings.size(); ++i) {
    if (!study.settings[i].run) continue;
    jobs.push_back(read_job(study.settings[i], where, str(folder, "/setting-", i)));
  }
  TRIB_REQUIRE(
      !jobs.empty(), .what = "app: study does not run on this machine",
      .where = str(where, " settings"),
      .found = str("no setting with `run`; the first is ", describe(study.settings.front())),
      .expected =
          "a setting with `run`: {config: RUN.yaml}, and as many processes as "
          "`devices`; configs/studies/demo_processes.yaml is one",
      .fix = "leave out --run, which simulates the study");
  return jobs;
}

MeasuredJob measured_job(const StudyJob& job, const std::string& profile_path) {
  const config::StudySetting& setting = *job.setting;
  const config::Profile profile = config::read_profile(profile_path);
  check_profile_model(profile, profile_path, job.run.model.path);
  MeasuredMachine machine =
      measured_machine(profile, profile_path, setting.devices, job.run.run.threads, std::nullopt,
                       Caller::kCommandLine);
  MeasuredJob measured{.knows_peak = profile.flops_per_s > 0,
                       .note = note_on_noise(profile, profile_path)};
  plan::PlanningProblem& problem = measured.problem;
  problem = {.model = job.model,
             .cluster = std::move(machine.cluster),
             .devices = setting.devices,
             .batches = {},
             .frozen = setting.frozen,
             .measured = std::move(machine.costs),
             .threads = job.run.run.threads,
             .longest_sample = {job.run.data.max_tokens}};
  if (setting.memory)
    problem.cluster.device.memory = *setting.memory + problem.cluster.device.reserve;
  if (setting.recompute) problem.space.recompute = {*setting.recompute};
  for (const std::vector<SampleShape>& batch : job.batches) {
    std::vector<simulate::SampleSize>& sizes = problem.batches.emplace_back();
    for (const SampleShape& shape : batch) sizes.push_back(simulate::size_of(shape));
  }
  return measured;
}

}  // namespace tributary::app
