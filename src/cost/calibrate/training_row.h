#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/artifact/cluster.h"
#include "config/plan/plan.h"
#include "core/text.h"

namespace tributary::cost {

/// One configuration of a GPT-style model on a cluster, as published tables of step times list it.
struct TrainingRow {
  std::shared_ptr<const std::string> source = {};  // its file, shared by all rows of that file
  std::int64_t line = 0;                           // in that file, from 1
  std::int64_t devices = 1;
  std::int64_t global_batch = 1;  // sequences
  std::int64_t micro_batch = 1;
  std::int64_t width = 1;
  std::int64_t heads = 1;
  std::int64_t layers = 1;
  std::int64_t sequence = 1;  // tokens
  std::int64_t tp = 1;
  std::int64_t dp = 1;
  std::int64_t pp = 1;
  std::int64_t virtual_stages = 1;  // on each rank
  std::int64_t vocab = 50257;
  bool sequence_parallel = false;
  std::optional<config::RecomputePlan> recompute = {};  // null: recompute_of decides
  std::optional<double> seconds = {};                   // measured

  [[nodiscard]] std::int64_t microbatches() const { return global_batch / dp / micro_batch; }
  /// File and line, for messages.
  [[nodiscard]] std::string place() const {
    return source ? str(*source, ':', line) : str("line ", line);
  }
};

/// A table of rows with the text of its lines, so that columns can be added to it.
struct TrainingTable {
  std::string source = {};
  std::string header = {};
  std::vector<std::string> lines = {};  // without line ends
  std::vector<TrainingRow> rows = {};
  int predicted = -1;  // the column with predictions, if there already is one
};

/// Reads comma-separated rows with a header of the names below. Other columns are kept and ignored.
/// Required: `# GPUs`, `global batch`, `micro batch`, `hidden size`, `attention heads`, `# layers`,
/// `sequence length`, `tensor parallelism`, `data parallelism`, `pipeline parallelism`. Optional:
/// `iteration time (ms)`, `virtual stages`, `vocabulary`, `recompute` (none, selective, full),
/// `sequence parallelism` (0, 1).
///
/// errors: Fault::kInput naming file, line and column: a missing column, a name that differs from
///         an optional one only by case or two letters, a value that is not a whole number, degrees
///         whose product is not the number of devices, a batch that does not divide
/// cost:   a million rows in seconds
[[nodiscard]] TrainingTable read_training_rows(const std::string& path);
[[nodiscard]] TrainingTable parse_training_rows(std::string_view text, const std::string& source);

/// The table with a column `predicted_ms`, appended or in place of the one that it has.
///
/// units: seconds [rows]
[[nodiscard]] std::string write_predictions(const TrainingTable& table,
                                            std::span<const double> seconds);

/// The row's own recompute level. Without one: full if a single device cannot train the model on
/// one sequence otherwise, because a study uses one program for all splits of a model.
[[nodiscard]] config::RecomputePlan recompute_of(const config::Cluster& cluster,
                                                 const TrainingRow& row);

/// Time of one step.
///
/// units:  seconds
/// errors: Fault::kInput naming what does not fit the cluster
/// source: 1F1B with equal stages between the first and the last one; docs/guides/cost_model.md
[[nodiscard]] double step_seconds(const config::Cluster& cluster, const TrainingRow& row);

/// Where the time of a step goes, in seconds; the parts add up to step_seconds.
struct StepParts {
  double stages = 0;     // the slowest stage times the microbatches
  double bubble = 0;     // filling and draining the pipeline
  double messages = 0;   // between stages, the part that is not hidden
  double gradients = 0;  // all-reduce over the replicas
  double optimizer = 0;

  [[nodiscard]] double total() const { return stages + bubble + messages + gradients + optimizer; }
};
[[nodiscard]] StepParts step_parts(const config::Cluster& cluster, const TrainingRow& row);

}  // namespace tributary::cost
