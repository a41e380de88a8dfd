#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/artifact/profile.h"
#include "core/units.h"

namespace tributary::simulate {

/// The members of a collective of a workload.
enum class WorkloadGroup { kTensor, kData, kExpert, kExpertData };

struct WorkloadCollective {
  config::CollectiveOp op = config::CollectiveOp::kAllReduce;
  WorkloadGroup group = WorkloadGroup::kTensor;
  Bytes bytes = {};  // of the full buffer: after a gather, or before a scatter

  friend bool operator==(const WorkloadCollective&, const WorkloadCollective&) = default;
};

/// Compute, and the collective after it.
struct WorkloadPass {
  Nanoseconds compute = {};
  std::optional<WorkloadCollective> collective = {};

  friend bool operator==(const WorkloadPass&, const WorkloadPass&) = default;
};

struct WorkloadRow {
  std::string name = {};
  WorkloadPass forward = {};
  WorkloadPass input_gradient = {};
  WorkloadPass weight_gradient = {};
  Nanoseconds process = {};  // after each of its collectives

  friend bool operator==(const WorkloadRow&, const WorkloadRow&) = default;
};

/// The actions of one device of one pipeline stage in a step: docs/formats/simai_workload.md.
struct SimaiWorkload {
  std::string path = {};
  std::int64_t tensor = 1;        // [ranks] model_parallel_NPU_group
  std::int64_t expert = 1;        // [ranks] ep
  std::int64_t stages = 1;        // pp
  std::int64_t chunks = 1;        // of a stage; vpp, or 1 with a single stage
  std::int64_t microbatches = 1;  // ga
  std::int64_t ranks = 1;         // all_gpus
  Bytes message = {};             // pp_comm: between stages, for each rank and microbatch
  std::vector<WorkloadRow> rows = {};
  std::int64_t first_row = 0;  // of the first microbatch; rows before it run once a step
  std::int64_t microbatch_rows = 0;

  [[nodiscard]] std::int64_t data() const { return ranks / (tensor * stages); }
  /// Rows [first_row, end_row()) belong to microbatches; later rows run once a step.
  [[nodiscard]] std::int64_t end_row() const { return first_row + microbatches * microbatch_rows; }
};

/// Reads a workload of SimAI, which AICB writes.
///
/// errors: Fault::kInput naming file, line and column: a header of another kind, a key that is
///         missing, unknown or repeated, degrees that do not fit each other, a number of rows other
///         than the second line says, a row of another width, an unknown collective, a value that
///         is negative or not a number, rows that differ between microbatches
/// cost:   O(bytes); 10^6 rows take under a second
[[nodiscard]] SimaiWorkload read_simai_workload(const std::string& path);
[[nodiscard]] SimaiWorkload parse_simai_workload(std::string_view text, const std::string& path);

/// Finds the rows of the microbatches: all but those at both ends that AICB writes once a step,
/// which it knows by their names.
///
/// errors: Fault::kInput naming a row that differs between microbatches
void find_microbatches(SimaiWorkload& workload);

/// `tp 2, ep 16, dp 384, pp 12 of 8 chunks; 24 microbatches of 74 rows, 13 rows once a step`
[[nodiscard]] std::string describe(const SimaiWorkload& workload);

/// The line of a row in its file.
[[nodiscard]] inline std::int64_t line_of_row(std::int64_t row) { return row + 3; }

}  // namespace tributary::simulate
