#pragma once

#include <string>
#include <vector>

#include "plan/chains/chain_tables.h"
#include "plan/problem/measured_degrees.h"

namespace tributary::plan {

/// A choice with what the closed form says of it.
struct Candidate {
  PlanChoice choice = {};
  double estimate = 0;  // [ns] of a step
};

/// What of so many places choices have that are doubtful: that only may fit, or are colocated.
template <class Count>
[[nodiscard]] constexpr Count quarter_of(Count places) {
  return (places + 3) / 4;
}

struct CandidateEffort {
  std::int64_t keep = 0;  // 0: usual_candidates; a quarter of them may be plans of which it is not
                          // sure that they fit; and a quarter as many more of colocated encoders
  double within = 2;      // of the best estimate: what the closed form may be wrong by
  double caution = 1;     // that estimates of memory are taken times
};

/// What is judged in about the same time whatever the size of a batch: 200 of 2,048 samples or
/// more, in proportion more of fewer, and 1,600 at most.
[[nodiscard]] std::int64_t usual_candidates(const PlanningProblem& problem);

struct CandidateList {
  std::vector<Candidate> candidates = {};  // the best first; ties: as they are listed
  Nanoseconds lower_bound = {};            // no plan of the space has a mean step below
  Nanoseconds rounding = {};               // that the bound has lost to whole nanoseconds
  std::int64_t cells = 0;                  // degrees of the backbone with numbers of microbatches
  std::int64_t estimates = 0;
  LeftOut left_out = {};
  std::string limit = {};  // why there is none
};

/// The best choices of the space by a closed form over mean microbatches, by branch and bound.
///
/// A cell is where encoders run, the backbone's degrees and the number of microbatches. Cells are
/// visited by their bound; within one the schedule, sharding, recompute and the encoders' degrees
/// are chosen. The bound holds for simulated steps too: passes of a lane do not overlap, and the
/// time of a pass is convex in its size, so no lane is done before its part of the mean
/// microbatches is; units are whole on a rank; the largest microbatch goes through all of them and
/// back; and what units keep meanwhile has no more room than the ranks. Each level of recompute is
/// bounded by itself, where it may fit.
///
/// source: docs/theory/bound.md
[[nodiscard]] CandidateList list_candidates(const PlanningProblem& problem, ChainTables& tables,
                                            const CandidateEffort& effort = {});

/// Numbers of microbatches that the search tries: all up to 8, then in steps of an eighth, the
/// first multiples of pp, and what divides the samples of a replica.
[[nodiscard]] std::vector<std::int64_t> microbatch_numbers(const PlanningProblem& problem,
                                                           std::int64_t pp, std::int64_t replicas);

}  // namespace tributary::plan
