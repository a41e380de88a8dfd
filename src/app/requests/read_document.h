#pragma once

#include <optional>
#include <string>

#include "app/table/read_table.h"
#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"
#include "config/plan/plan.h"
#include "simulate/samples/deal_samples.h"
#include "studies/methods/training_problem.h"

namespace tributary::app {

/// What a caller gave of an artifact: a file, or its content.
struct Document {
  std::string name = {};  // of the argument, for messages about content
  bool is_path = true;    // else text holds JSON
  std::string text = {};  // path or content; empty: none was given

  [[nodiscard]] bool empty() const { return text.empty(); }
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
/// Sizes of samples from a shape histogram or, as a file without .json, a table as of sizes_of.
[[nodiscard]] simulate::RecordedSizes read_sizes(const Document& document);

/// shape:  table [samples, 1 to 5]: tokens, patches, the number of images or frames, and of sound
///         beside images its positions and the number of clips
/// errors: Fault::kInput naming the row
[[nodiscard]] simulate::RecordedSizes sizes_of(const NumberTable& table);

/// Sizes as a file or as Python's rows; none where neither was given.
[[nodiscard]] std::optional<simulate::RecordedSizes> read_lengths(
    const Document& lengths, const std::optional<NumberTable>& rows);

}  // namespace tributary::app
