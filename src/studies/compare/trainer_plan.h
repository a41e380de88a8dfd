#pragma once

#include <optional>
#include <string>

#include "plan/problem/found_plan.h"
#include "studies/methods/pipeline_baselines.h"

namespace tributary::studies {

/// A published method's plan as one of the trainer's, or why there is none.
struct TrainerPlan {
  std::optional<plan::FoundPlan> found = {};
  bool is_changed = false;  // sharded, recomputed or both, to fit
  bool is_short = false;    // none: it is memory that it lacks
  std::string text = {};    // of it
  std::string reason = {};  // what the trainer's plans lack, or what does not fit
};

/// Makes the plan of a form, with samples dealt as for plans of `search`, and simulates it with
/// shared links on as many batches as take 250,000 messages, at least one; an encoder ahead of its
/// step on all of them, as they follow each other. A colocated encoder takes as few passes as
/// memory allows. What does not fit is sharded, recomputed or both: tables cut the optimizer's
/// state over whole copies, which the trainer's plans do with the parameters alone, and ask memory
/// for mean samples.
///
/// cost: as a finalist of search_plan
[[nodiscard]] TrainerPlan trainer_plan(const plan::PlanningProblem& problem,
                                       const TrainerForm& form, config::RecomputePlan recompute);

}  // namespace tributary::studies
