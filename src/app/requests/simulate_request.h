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

/// What a user asks of `simulate`. The help texts in fields_of explain each field.
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
  std::optional<NumberTable> length_rows = {};  // Python may give these in place of `lengths`
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
  GivenOptions given = {};  // options without an effect are refused
};

/// The table of the arguments of `simulate`, in the order of --help.
[[nodiscard]] std::vector<RequestField> fields_of(SimulateOptions& options);

/// The options of `simulate`, and the content of the files that they name.
struct SimulateRequest {
  SimulateOptions options;
  std::optional<simulate::SimaiWorkload> workload = {};  // in place of the plan and its files
  config::Plan plan = {};
  config::ModuleGraph model = {};
  std::optional<config::Cluster> cluster = {};           // null: nodes of 8 A100
  std::optional<config::Profile> profile = {};           // measured costs of layers and collectives
  std::optional<simulate::RecordedSizes> recorded = {};  // sizes of samples to draw from
  simulate::RecordedSteps run = {};    // recorded by a run; simulated in place of `steps`
  simulate::RecordedMedia media = {};  // the media of these steps; empty: the run recorded none
};

/// Checks the options and reads the files that they name.
///
/// errors: Fault::kInput as the readers of the files, or naming the argument
[[nodiscard]] SimulateRequest read_request(SimulateOptions options);

}  // namespace tributary::app
