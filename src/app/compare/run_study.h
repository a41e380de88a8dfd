#pragma once

#include <cstdint>
#include <string>

#include "core/exit_code.h"
#include "studies/compare/compare.h"

namespace tributary::app {

struct RunStudyOptions {
  std::string where = {};    // the study, for messages
  std::string folder = {};   // of profiles, plans and runs
  std::string profile = {};  // of this machine; empty: measured, or what is missing of it
  std::int64_t rounds = 3;   // runs of each method
};

/// A comparison by runs, and how they ended.
struct RunStudy {
  studies::Comparison comparison = {};
  ExitCode code = ExitCode::kDone;  // that of the first run that failed
};

/// Trains the methods of a study on processes of this machine, beside what the simulator says of
/// each by measured costs: those settings that say `run`. Everything is read and checked first,
/// then each setting is profiled, planned and run.
///
/// errors: as study_jobs, measured_job, plans_to_run and run_methods; Fault::kInput where no method
///         of a setting has a plan that runs
[[nodiscard]] RunStudy run_study(const config::Study& study, const RunStudyOptions& options);

}  // namespace tributary::app
