#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/chains/chain_tables.h"
#include "plan/problem/measured_degrees.h"

namespace tributary::plan {

/// A cell of the search: degrees of the backbone, place of the encoders, number of microbatches.
struct Cell {
  double bound = 0;        // [ns] lower bound, with `rounding` subtracted
  double rounding = 0;     // [ns] that rounding to whole nanoseconds may add
  double rank = 0;         // [ns] sort key: the bound and part of the pipeline's fill
  double bytes = 0;        // lower bound for the mean rank of a replica
  std::uint32_t form = 0;  // index into CellList::forms
  std::int32_t pp = 1;
  std::int32_t dp = 1;
  std::int32_t microbatches = 1;
  std::int32_t colocated = -1;  // the encoder on the backbone's ranks; -1: none
};

struct CellList {
  std::vector<ChainForm> forms = {};  // of the backbone, without recompute
  double min_bound = 0;               // [ns] min over all cells
  double rounding = 0;                // [ns] subtracted from that min for rounding
  std::int64_t placements = 0;        // placements of encoders that the space allows
  std::vector<Cell> cells = {};       // cells that may fit in memory; by rank, then as listed
  std::int64_t too_full = 0;          // cells that need more memory
  LeftOut left_out = {};
};

/// All cells of the space, each with a lower bound on the mean step of its plans. The costs of
/// `min` must be convex in the size of a pass and nowhere above the problem's.
[[nodiscard]] CellList list_cells(const PlanningProblem& problem, ChainTables& min);

}  // namespace tributary::plan
