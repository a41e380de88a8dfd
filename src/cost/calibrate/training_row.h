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
  std::shared_ptr<const std::string> source = {};  // file that it stands in, of all its rows
  std::int64_t line = 0;                           // of the file, from 1
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
  std::int64_t virtual_stages = 1;  // of a rank
  std::int64_t vocab = 50257;
  bool sequence_parallel = false;
  std::optional<config::RecomputePlan> recompute = {};  // nothing: recompute_of decides
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
  std::vector<std::string> lines = {};  // as they stand, without their end
  std::vector<TrainingRow> rows = {};
  int predicted = -1;  // column of predictions that it has already
};

/// Reads comma-separated rows with a header of the names below; other columns are kept and mean
/// nothing. Required: `# GPUs`, `global batch`, `micro batch`, `hidden size`, `attention heads`,
/// `# layers`, `sequence length`, `tensor parallelism`, `data parallelism`, `pipeline parallelism`.
/// Optional: `iteration time (ms)`, `virtual stages`, `vocabulary`, `recompute` (none, selective,
/// full), `sequence parallelism` (0, 1).
///
/// errors: Fault::kInput naming file, line and column: a missing column, one that is an optional
///         one but for case or two letters, a value that is no whole number, degrees that do not
///         multiply to the devices, a batch that does not divide
/// cost:   a million rows in seconds
[[nodiscard]] TrainingTable read_training_rows(const std::string& path);
[[nodiscard]] TrainingTable parse_training_rows(std::string_view text, const std::string& source);

/// The table with a column `predicted_ms` behind the others, or in the place of the one it has.
///
/// units: seconds [rows]
[[nodiscard]] std::string write_predictions(const TrainingTable& table,
                                            std::span<const double> seconds);

/// The row's own choice; without one, full recompute for a model that one device cannot train on a
/// single sequence without: a study keeps its program for all splits of a model.
[[nodiscard]] config::RecomputePlan recompute_of(const config::Cluster& cluster,
                                                 const TrainingRow& row);

/// Time of one step.
///
/// units:  seconds
/// errors: Fault::kInput naming what the cluster cannot hold
/// source: 1F1B with stages of one length between a first and a last one; docs/guides/cost_model.md
[[nodiscard]] double step_seconds(const config::Cluster& cluster, const TrainingRow& row);

/// Where the time of a step goes, in seconds; they add up to step_seconds.
struct StepParts {
  double stages = 0;     // the slowest stage, over all microbatches
  double bubble = 0;     // filling and draining the pipeline
  double messages = 0;   // between stages, as far as it is not hidden
  double gradients = 0;  // all-reduce over the replicas
  double optimizer = 0;

  [[nodiscard]] double total() const { return stages + bubble + messages + gradients + optimizer; }
};
[[nodiscard]] StepParts step_parts(const config::Cluster& cluster, const TrainingRow& row);

}  // namespace tributary::cost
