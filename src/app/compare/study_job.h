#pragma once

#include <string>
#include <vector>

#include "config/artifact/module_graph.h"
#include "config/run/run_config.h"
#include "config/study/study.h"
#include "core/sample_shape.h"
#include "plan/problem/planning_problem.h"
#include "studies/compare/plans_to_run.h"

namespace tributary::app {

/// A setting of a study as a job of this machine.
struct StudyJob {
  const config::StudySetting* setting = nullptr;  // of the study, which outlives the job
  std::string folder = {};                        // of its profile, plans and runs
  std::vector<std::string> values = {};           // key.path=value for `train`, without the plan
  config::RunConfig run = {};                     // the run configuration with these
  config::ModuleGraph model = {};
  std::vector<std::vector<SampleShape>> batches = {};  // [steps][global samples]
};

/// Reads what the settings of a study that say `run` need, and checks it, before anything starts.
/// Their samples a step, frozen modules and number of processes are those of the study.
///
/// folder: of all runs; each job has its own in it
/// errors: Fault::kInput where no setting runs on this machine, or naming the setting: more
///         processes than the machine takes, another model than that of the run, and as
///         read_run_config, check_surroundings and batches_of_run
[[nodiscard]] std::vector<StudyJob> study_jobs(const config::Study& study, const std::string& where,
                                               const std::string& folder);

/// A job on the measured machine, ready to be planned.
struct MeasuredJob {
  plan::PlanningProblem problem = {};
  bool knows_peak = false;  // of the devices, for MFU
  std::string note = {};    // a warning about the profile; empty without
};

/// Reads a profile of this machine for a job.
///
/// errors: Fault::kInput as read_profile, check_profile_model and measured_machine
[[nodiscard]] MeasuredJob measured_job(const StudyJob& job, const std::string& profile);

}  // namespace tributary::app
