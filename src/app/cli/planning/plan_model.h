#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/answer/given_options.h"
#include "core/exit_code.h"
#include "plan/baseline/training_problem.h"

namespace tributary::app {

/// Places a model on a cluster: a run configuration, a model directory or a module graph.
struct ModelPlanning {
  std::string path;
  std::string cluster;
  std::string method;
  std::string output;
  std::string lengths;
  std::string freeze;
  std::string schedules;
  std::string axes;
  std::string profile;
  std::int64_t threads = 0;         // of each rank, with a profile
  std::int64_t devices = 0;         // 0: as PlanRequest
  std::int64_t global_samples = 0;  // 0: as the run configuration says, or 512
  std::int64_t tokens = 0;          // of each sample of a text model
  std::int64_t batches = 8;
  std::int64_t seed = 0;
  std::int64_t candidates = 0;  // 0: as PlanRequest
  std::int64_t keep = 10;
  bool runnable = false;
  bool explain = false;
  bool json = false;
  GivenOptions given = {};
};

/// Prints the best plans and writes the best one.
///
/// errors: Fault::kInput naming key or option; Fault::kResource where no plan fits the devices
[[nodiscard]] ExitCode plan_model(const ModelPlanning& arguments);

/// A model as tables for the published methods.
struct ModelTable {
  plan::TrainingProblem problem = {};
  std::string note = {};  // note_on_devices
};

/// The same model, devices and batches as tables for the published methods.
///
/// errors: Fault::kInput naming key or option; a model without exactly one encoder
[[nodiscard]] ModelTable cost_table_of(const ModelPlanning& arguments);

}  // namespace tributary::app
