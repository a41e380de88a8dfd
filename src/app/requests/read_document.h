#pragma once

#include <optional>
#include <string>

#include "app/requests/read_table.h"
#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"
#include "config/plan/plan.h"
#include "simulate/samples/deal_samples.h"
#include "studies/methods/training_problem.h"

namespace tributary::app {

/// An artifact that a caller gave: the path of a file, or its content.
struct Document {
  std::string name = {};  // of the argument; messages about content need it
  bool is_path = true;    // else text holds JSON
  std::string text = {};  // path or content; empty: the caller gave none

  [[nodiscard]] bool empty() const { return text.empty(); }
  /// What messages name: the path, or the argument.
  [[nodiscard]] const std::string& where() const { return is_path ? text : name; }
};

// errors: Fault::kInput as the readers of the formats
[[nodiscard]] config::Plan read_plan(const Document& document);
[[nodiscard]] config::Cluster read_cluster(const Document& document);
[[nodiscard]] config::Profile read_profile(const Document& document);
[[nodiscard]] studies::TrainingProblem read_cost_table(const Document& document);
/// Reads a directory with a config.json, a module graph, or the content of either.
[[nodiscard]] config::ModuleGraph read_model(const Document& document);
/// Reads sizes of samples: a shape histogram, or from a file without .json a table for sizes_of.
[[nodiscard]] simulate::RecordedSizes read_sizes(const Document& document);

/// shape:  table [samples, 1 to 5]: tokens, patches, images or frames; for sound beside images also
///         audio positions and clips
/// errors: Fault::kInput naming the row
[[nodiscard]] simulate::RecordedSizes sizes_of(const NumberTable& table);

/// Sizes of samples for a model, from a file or from the rows of Python; null where the caller gave
/// neither.
[[nodiscard]] std::optional<simulate::RecordedSizes> read_lengths(
    const Document& lengths, const std::optional<NumberTable>& rows,
    const config::ModuleGraph& model);

}  // namespace tributary::app
