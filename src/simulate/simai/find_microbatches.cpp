#include <algorithm>
#include <array>

#include "core/error.h"
#include "simulate/simai/simai_workload.h"

namespace tributary::simulate {
namespace {

/// Rows that AICB writes once a step, before or after the microbatches.
constexpr std::array<std::string_view, 8> kInFront{
    "grad_gather", "grad_param_comm", "grad_param_compute", "grad_norm",
    "layernorm",   "embedding_grads", "moe_grad_norm1",     "moe_grad_norm2"};
constexpr std::array<std::string_view, 8> kBehind{
    "embedding_norm", "cross_entropy1", "cross_entropy2", "cross_entropy3",
    "optimizer1",     "optimizer2",     "optimizer3",     "optimizer4"};

template <class Names>
bool is_one_of(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void find_microbatches(SimaiWorkload& workload) {
  const std::vector<WorkloadRow>& rows = workload.rows;
  std::int64_t first = 0;
  std::int64_t end = std::ssize(rows);
  while (first < end && is_one_of(kInFront, rows[first].name)) ++first;
  while (first < end && is_one_of(kBehind, rows[end - 1].name)) --end;
  const std::int64_t microbatches = workload.microbatches;
  TRIB_REQUIRE(first < end, .what = "simulate: workload has no rows of a microbatch",
               .where = workload.path, .found = "rows that run once a step alone",
               .expected = "at least one row of a layer");
  TRIB_REQUIRE((end - first) % microbatches == 0,
               .what = "simulate: rows of a workload do not divide into its microbatches",
               .where = str(workload.path, ":", line_of_row(first)),
               .found = str(end - first, " rows from here to line ", line_of_row(end - 1)),
               .expected = str("ga ", microbatches, " times the same rows"),
               .fix = "write the rows of every microbatch, as AICB does, or ga: 1");
  workload.first_row = first;
  workload.microbatch_rows = (end - first) / microbatches;
  TRIB_REQUIRE(workload.chunks <= workload.microbatch_rows,
               .what = "simulate: workload has fewer rows in a microbatch than chunks of a stage",
               .where = str(workload.path, ":1"), .found = str("vpp ", workload.chunks),
               .expected = str("at most ", workload.microbatch_rows, " rows of a microbatch"));
  for (std::int64_t row = first + workload.microbatch_rows; row < end; ++row) {
    const std::string& before = rows[row - workload.microbatch_rows].name;
    TRIB_REQUIRE(
        rows[row].name == before,
        .what = "simulate: microbatches of a workload have other rows than the first one",
        .where = str(workload.path, ":", line_of_row(row)), .found = escaped(rows[row].name),
        .expected =
            str(escaped(before), ", as in line ", line_of_row(row - workload.microbatch_rows)),
        .fix = str("write ga ", microbatches, " times the same rows, as AICB does"));
  }
}

std::string describe(const SimaiWorkload& workload) {
  const std::int64_t once = std::ssize(workload.rows) - workload.end_row() + workload.first_row;
  return str("tp ", workload.tensor, ", ep ", workload.expert, ", dp ", workload.data(), ", pp ",
             workload.stages,
             workload.chunks > 1 ? str(" of ", workload.chunks, " chunks") : std::string(), "; ",
             workload.microbatches,
             workload.microbatches == 1 ? " microbatch of " : " microbatches of ",
             workload.microbatch_rows, workload.microbatch_rows == 1 ? " row, " : " rows, ", once,
             once == 1 ? " row once a step" : " rows once a step");
}

}  // namespace tributary::simulate
