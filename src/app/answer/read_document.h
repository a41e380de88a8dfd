#pragma once

#include <string>

#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"
#include "config/cluster/cluster.h"
#include "config/plan/plan.h"
#include "simulate/samples/deal_samples.h"
#include "studies/methods/training_problem.h"

namespace tributary::app {

/// What a caller gave of an artifact: a file, or its content.
struct Document {
  std::string name;     // of the argument, for messages
  bool is_path = true;  // else text holds JSON
  std::string text;     // path or content

  /// The file, or the argument.
  [[nodiscard]] const std::string& where() const { return is_path ? text : name; }
};

// errors: Fault::kInput as the readers of the formats
[[nodiscard]] config::Plan read_plan(const Document& document);
[[nodiscard]] config::Cluster read_cluster(const Document& document);
[[nodiscard]] config::Profile read_profile(const Document& document);
[[nodiscard]] studies::TrainingProblem read_cost_table(const Document& document);
/// A directory with a config.json or a module graph; or the content of either.
[[nodiscard]] config::ModuleGraph read_model(const Document& document);
/// A shape histogram or, as a file, a table of sizes.
[[nodiscard]] simulate::RecordedSizes read_sizes(const Document& document);

}  // namespace tributary::app
