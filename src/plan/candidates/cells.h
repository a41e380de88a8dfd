#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/chains/chain_tables.h"
#include "plan/problem/measured_degrees.h"

namespace tributary::plan {

/// Degrees of the backbone, where encoders run, and a number of microbatches.
struct Cell {
  double bound = 0;        // [ns] less `rounding`
  double rounding = 0;     // [ns] that times of whole nanoseconds may add up to
  double rank = 0;         // [ns] with some of the time to fill the pipeline: what to look at first
  double bytes = 0;        // that the mean rank of a replica holds at least
  std::uint32_t form = 0;  // of CellList::forms
  std::int32_t pp = 1;
  std::int32_t dp = 1;
  std::int32_t microbatches = 1;
  std::int32_t colocated = -1;  // encoder on the backbone's ranks
};

struct CellList {
  std::vector<ChainForm> forms = {};  // of the backbone, without recompute
  double least_bound = 0;             // [ns] of all cells
  double rounding = 0;                // [ns] that the least bound has lost to whole nanoseconds
  std::int64_t placements = 0;        // of all encoders that the space allows
  std::vector<Cell> cells = {};       // whose memory may suffice; by rank, then as listed
  std::int64_t too_full = 0;          // those that need more memory
  LeftOut left_out = {};
};

/// All cells of the space, each with a bound on the mean step of its plans; `least` are tables of
/// costs that are convex in the size of a pass and nowhere above the problem's.
[[nodiscard]] CellList list_cells(const PlanningProblem& problem, ChainTables& least);

}  // namespace tributary::plan
