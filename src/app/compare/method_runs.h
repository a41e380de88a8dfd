#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/compare/study_job.h"
#include "studies/compare/compare.h"

namespace tributary::app {

/// Measures a profile of this machine with the processes of a job, or what an existing one lacks.
///
/// errors: the failure of `tributary profile` under its exit code; kTerminated after a signal
void measure_profile(const StudyJob& job, const std::string& profile);

/// Called before each run: the method, and its round from 1.
using OnRun = std::function<void(const std::string& method, std::int64_t round)>;

/// Trains the methods of a setting that have a plan file on processes of this machine, in rounds:
/// each method once, then each again. The same runs of an earlier comparison in the folder are
/// replaced. A method whose run fails is not run again; the others go on.
/// Losses are compared with those of the first method that ran, because all train on one data
/// order.
///
/// methods: their `run` is filled in
/// errors:  kTerminated after a signal, which has ended all processes; Fault::kInput where a run
///          that ended well left no metrics
void run_methods(const StudyJob& job, std::int64_t rounds,
                 std::vector<studies::MethodResult>& methods, const OnRun& on_run = {});

}  // namespace tributary::app
