#pragma once

#include <string>
#include <vector>

#include "plan/chains/chain_tables.h"
#include "plan/problem/measured_degrees.h"

namespace tributary::plan {

/// A choice and the closed form's estimate of it.
struct Candidate {
  PlanChoice choice = {};
  double estimate = 0;  // [ns] of a step
};

/// How many of `places` candidates may be doubtful: those that may not fit, or are colocated.
template <class Count>
[[nodiscard]] constexpr Count quarter_of(Count places) {
  return (places + 3) / 4;
}

struct CandidateEffort {
  std::int64_t keep = 0;  // 0: usual_candidates; up to a quarter may be plans that are not
                          // sure to fit; a quarter as many again are colocated encoders
  double within = 2;      // what is slower than this times the best estimate is dropped
  double caution = 1;     // factor on estimates of memory
};

/// The number of candidates that are judged in about the same time whatever the size of a batch:
/// 200 for 2,048 samples or more, proportionally more for fewer samples, at most 1,600.
[[nodiscard]] std::int64_t usual_candidates(const PlanningProblem& problem);

struct CandidateList {
  std::vector<Candidate> candidates = {};  // the best first; ties: in the order of listing
  Nanoseconds lower_bound = {};            // no plan of the space has a mean step below this
  Nanoseconds rounding = {};               // subtracted from the bound for rounding
  std::int64_t cells = 0;                  // cells of the space: degrees times microbatch numbers
  std::int64_t estimates = 0;
  LeftOut left_out = {};
  std::string limit = {};  // why there are no candidates
};

/// The best choices of the space by a closed form over mean microbatches, by branch and bound.
///
/// A cell is a placement of the encoders, the backbone's degrees and a number of microbatches.
/// Cells are visited by their bound; within a cell the schedule, sharding, recompute and the
/// encoders' degrees are chosen. The bound holds for simulated steps too: passes of a lane do not
/// overlap and the time of a pass is convex in its size, so a lane takes at least its part of the
/// mean microbatches; a rank holds whole units; the largest microbatch goes forward and back
/// through all of them; and kept bytes must fit in memory. Each level of recompute that may fit is
/// bounded by itself.
///
/// source: docs/theory/bound.md
[[nodiscard]] CandidateList list_candidates(const PlanningProblem& problem, ChainTables& tables,
                                            const CandidateEffort& effort = {});

/// The numbers of microbatches that the search tries: all up to 8, then in steps of an eighth, the
/// first multiples of pp, and the divisors of a replica's samples.
[[nodiscard]] std::vector<std::int64_t> microbatch_numbers(const PlanningProblem& problem,
                                                           std::int64_t pp, std::int64_t replicas);

}  // namespace tributary::plan
