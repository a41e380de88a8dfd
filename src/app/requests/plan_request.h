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
inline constexpr const char* kFormerSearch = "exact";  // still taken

/// What a user asks of `plan`; fields_of says what each field means.
struct PlanOptions {
  Document model;  // CONFIG: a run configuration or a cost table too
  Document cluster;
  Document profile;
  std::int64_t threads = 0;  // of each rank; 0: an equal part of the cores
  std::int64_t devices = 0;  // 0: all of the cluster; one node where those are over 4096
  std::string method;
  std::int64_t global_samples = 0;  // 0: as the run configuration says, or 512
  std::int64_t tokens = 0;          // 0: as the run configuration says, or 4096
  Document lengths;
  std::optional<NumberTable> length_rows = {};  // in place of lengths, in Python
  std::int64_t batches = 8;
  std::int64_t seed = 0;
  std::vector<std::string> freeze;
  std::vector<std::string> schedules;  // none: the usual ones
  std::vector<std::string> axes;       // none: the usual ones
  std::int64_t candidates = 0;         // 0: plan::usual_candidates
  bool runnable = false;
  std::int64_t keep = 10;
  bool explain = false;
  std::string output;
  bool json = false;
  GivenOptions given = {};  // what would count for nothing is refused
};

/// The table of `plan`, in the order of --help.
[[nodiscard]] std::vector<RequestField> fields_of(PlanOptions& options);

/// A model to be placed on devices: options whose files are read.
struct PlanRequest {
  PlanOptions options;  // with samples and tokens of a step, and the model of a run configuration
  config::ModuleGraph model;
  TrainerCheck trainer;                                  // of the model
  std::optional<config::Cluster> cluster = {};           // none: of the profile, or nodes of 8 A100
  std::optional<config::Profile> profile = {};           // measured costs of layers and collectives
  std::optional<simulate::RecordedSizes> recorded = {};  // sizes of samples to draw from
};

/// Checks the options, and reads what they name.
///
/// errors: Fault::kInput as the readers of the files, or naming the argument
[[nodiscard]] PlanRequest read_request(PlanOptions options);

}  // namespace tributary::app
