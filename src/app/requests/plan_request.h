#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/requests/given_options.h"
#include "app/requests/read_document.h"
#include "app/requests/request_field.h"
#include "app/requests/trainer_check.h"
#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"

namespace tributary::app {

inline constexpr const char* kSearch = "search";
inline constexpr const char* kFormerSearch = "exact";  // its former name, still accepted

/// What a user asks of `plan`. The help texts in fields_of explain each field.
struct PlanOptions {
  Document model;  // on the command line it may be a run configuration or a cost table too
  Document cluster;
  Document profile;
  std::int64_t threads = 0;  // of each rank; 0: an equal part of the cores
  std::int64_t devices = 0;  // 0: the whole cluster, or one node of one with over 4096 devices
  std::string method;
  std::int64_t global_samples = 0;  // 0: as the run configuration says, or 512
  std::int64_t tokens = 0;          // 0: as the run configuration says, or 4096
  Document lengths;
  std::optional<NumberTable> length_rows = {};  // Python may give these in place of `lengths`
  std::int64_t batches = 8;
  std::int64_t seed = 0;
  std::vector<std::string> freeze;
  std::vector<std::string> schedules;  // empty: the usual ones
  std::vector<std::string> axes;       // empty: the usual ones
  std::int64_t candidates = 0;         // 0: plan::usual_candidates
  bool runnable = false;
  std::int64_t keep = 10;
  bool explain = false;
  std::string output;
  bool json = false;
  GivenOptions given = {};  // options without an effect are refused
};

/// The table of the arguments of `plan`, in the order of --help.
[[nodiscard]] std::vector<RequestField> fields_of(PlanOptions& options);

/// The options of `plan`, and the content of the files that they name.
struct PlanRequest {
  PlanOptions options;  // with the defaults and the values of a run configuration filled in
  config::ModuleGraph model;
  TrainerCheck trainer;                                  // of the model
  config::TrainingPlan training = {};                    // of the run configuration
  std::optional<config::Cluster> cluster = {};           // null: the profile's, or nodes of 8 A100
  std::optional<config::Profile> profile = {};           // measured costs of layers and collectives
  std::optional<simulate::RecordedSizes> recorded = {};  // sizes of samples to draw from
};

/// Checks the options and reads the files that they name.
///
/// errors: Fault::kInput as the readers of the files, or naming the argument
[[nodiscard]] PlanRequest read_request(PlanOptions options);

}  // namespace tributary::app
