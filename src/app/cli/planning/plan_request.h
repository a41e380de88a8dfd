#pragma once

#include <cstdint>
#include <string>

#include "app/answer/given_options.h"
#include "app/answer/plan_answer.h"

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

/// What a method is asked, and the model as the user names it.
struct ModelRequest {
  std::string model;
  PlanRequest request;
};

/// errors: Fault::kInput naming key or option
[[nodiscard]] ModelRequest read_model_request(const ModelPlanning& arguments);

/// Refuses an output that cannot be written, or that is one of the inputs.
void check_plan_output(const ModelPlanning& arguments);

/// Writes the plan to the output, where there is one.
///
/// model: as the user names it; the plan names it as seen from its own folder
void write_plan_of(const std::string& model, config::Plan plan, const std::string& output);

}  // namespace tributary::app
