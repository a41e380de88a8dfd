#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/requests/given_options.h"
#include "app/requests/read_document.h"
#include "app/requests/request_field.h"
#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"
#include "config/plan/plan.h"
#include "simulate/program/disturbance.h"
#include "simulate/recorded_steps.h"
#include "simulate/simai/simai_workload.h"

namespace tributary::app {

/// What a user asks of `simulate`; fields_of says what each field means.
struct SimulateOptions {
  Document plan;
  std::string workload;  // in place of a plan
  Document cluster;
  Document profile;
  std::string run;
  std::int64_t skip = 0;
  std::int64_t threads = 0;  // of each rank; 0: those of the run, or an equal part of the cores
  Document model;
  std::int64_t steps = 1;
  std::int64_t seed = 0;
  Document lengths;
  std::optional<NumberTable> length_rows = {};  // in place of lengths, in Python
  bool mixture = false;
  bool unfused_attention = false;
  bool sequence_parallel = true;
  std::string reduce_dtype = "float32";
  std::int64_t pool = 16;
  std::int64_t ahead = -1;
  double scheduler_ms = 0;
  simulate::Disturbance disturbance = {};
  std::string output;
  bool json = false;
  GivenOptions given = {};  // what would count for nothing is refused
};

/// The table of `simulate`, in the order of --help.
[[nodiscard]] std::vector<RequestField> fields_of(SimulateOptions& options);

/// Steps of a plan, or of a workload, to simulate: options whose files are read.
struct SimulateRequest {
  SimulateOptions options;
  std::optional<simulate::SimaiWorkload> workload = {};  // has no plan, model, profile and sizes
  config::Plan plan = {};
  config::ModuleGraph model = {};
  std::optional<config::Cluster> cluster = {};           // none: nodes of 8 A100
  std::optional<config::Profile> profile = {};           // measured costs of layers and collectives
  std::optional<simulate::RecordedSizes> recorded = {};  // sizes of samples to draw from
  simulate::RecordedSteps run = {};                      // that a run had, in place of `steps`
};

/// Checks the options, and reads what they name.
///
/// errors: Fault::kInput as the readers of the files, or naming the argument
[[nodiscard]] SimulateRequest read_request(SimulateOptions options);

}  // namespace tributary::app
