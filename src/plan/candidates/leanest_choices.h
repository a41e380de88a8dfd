#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/candidates/list_candidates.h"

namespace tributary::plan {

/// The choices with the min memory by the closed form, however much memory there is, the leanest
/// first and at most `max`: one for each combination of backbone degrees, schedule and placement.
/// Where the closed form rejects everything or is wrong about a whole list, these may still fit.
[[nodiscard]] std::vector<Candidate> list_leanest(const PlanningProblem& problem,
                                                  ChainTables& tables, std::int64_t max);

/// A lean choice, and what it holds when it runs on the batches.
struct LeanChoice {
  Candidate candidate = {};
  Bytes peak = {};
  std::string fullest = {};  // module
};
/// The leanest few choices, judged on all batches.
[[nodiscard]] std::vector<LeanChoice> judge_leanest(const PlanningProblem& problem,
                                                    ChainTables& tables);

}  // namespace tributary::plan
