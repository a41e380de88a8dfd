#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/search/search_plan.h"

namespace tributary::plan {

/// The effect of one change on the step, by another simulation.
struct Remedy {
  std::string change;
  Nanoseconds step;  // with the change
  double gain = 0;   // relative to the step without it
};

/// Where the time of a plan goes, what holds its memory, and what would help.
struct PlanExplanation {
  Nanoseconds step = {};                                                // on the batches explained
  std::vector<std::pair<std::string, Nanoseconds>> critical_path = {};  // by kind, longest first
  std::vector<std::pair<std::string, double>> idle = {};  // shares of all ranks' time, by cause
  double busy = 0;
  double communication = 0;
  std::string fullest = {};  // lane
  Bytes peak = {};
  Bytes available = {};
  std::vector<std::pair<std::string, Bytes>> memory = {};  // of the fullest lane, by holder
  std::vector<Remedy> remedies = {};                       // the most useful first
};

/// Explains a plan that a search found.
///
/// Each remedy changes one thing: links, device, memory, the samples or the number of microbatches.
/// The plan stays, except that more memory starts a new search. With `is_searched` false the plan
/// is not from the default search, and is compared with that search instead. Changes that cannot be
/// made are left out.
///
/// cost: about ten simulations of `batches` batches, and one short search
[[nodiscard]] PlanExplanation explain_plan(const PlanningProblem& problem, const FoundPlan& found,
                                           std::int64_t batches, bool is_searched = true);

}  // namespace tributary::plan
