#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/search/search_plan.h"

namespace tributary::plan {

/// What one change would do to the step, by another simulation.
struct Remedy {
  std::string change;
  Nanoseconds step;  // with it
  double gain = 0;   // of the step without it, as a share of that
};

/// Where the time of a plan goes, what holds its memory, and what would help.
struct PlanExplanation {
  Nanoseconds step = {};                                                // on the batches explained
  std::vector<std::pair<std::string, Nanoseconds>> critical_path = {};  // by kind, the most first
  std::vector<std::pair<std::string, double>> idle = {};  // shares of all ranks' time, by cause
  double busy = 0;
  double communication = 0;
  std::string fullest = {};  // lane
  Bytes peak = {};
  Bytes available = {};
  std::vector<std::pair<std::string, Bytes>> memory = {};  // of the fullest lane, by what holds it
  std::vector<Remedy> remedies = {};                       // the most useful first
};

/// Explains a plan that a search found.
///
/// Each remedy changes one thing: links, device, memory, the samples or the number of microbatches;
/// the plan is kept but for memory, for which is searched again. A plan that is none of the default
/// search, `is_searched` false, is set beside that search instead. Changes that cannot be made are
/// left out.
///
/// cost: some ten simulations of `batches` batches, and one short search
[[nodiscard]] PlanExplanation explain_plan(const PlanningProblem& problem, const FoundPlan& found,
                                           std::int64_t batches, bool is_searched = true);

}  // namespace tributary::plan
