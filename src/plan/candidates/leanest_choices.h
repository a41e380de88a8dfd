#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/candidates/list_candidates.h"

namespace tributary::plan {

/// The leanest choices of the space by the closed form, whatever memory there is: one for each
/// degrees of the backbone, schedule and placement of the encoders, as many at most; the leanest
/// first. Where memory is short and the closed form is wrong about all of a list, this is what may
/// fit still.
[[nodiscard]] std::vector<Candidate> list_leanest(const PlanningProblem& problem,
                                                  ChainTables& tables, std::int64_t most);

/// One of them, and what it holds when it runs on the batches.
struct LeanChoice {
  Candidate candidate = {};
  Bytes peak = {};
  std::string fullest = {};  // module
};
/// The leanest few, all batches judged.
[[nodiscard]] std::vector<LeanChoice> judge_leanest(const PlanningProblem& problem,
                                                    ChainTables& tables);

}  // namespace tributary::plan
