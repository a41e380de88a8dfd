#pragma once

#include <optional>
#include <string>

#include "plan/search/search_plan.h"
#include "studies/methods/all_methods.h"

namespace tributary::studies {

/// A published method's plan in the form of the trainer's, or the reason why there is none.
struct TrainerPlan {
  std::optional<plan::FoundPlan> found = {};
  bool is_changed = false;  // sharded, recomputed or both, to fit
  bool is_short = false;    // there is no plan because memory is short
  std::string text = {};    // describes the plan
  std::string reason = {};  // what the trainer's plans lack, or what does not fit
};

/// Makes the plan of a form, with samples dispatched as for plans of `search`. It simulates with
/// shared links on as many batches as take 250,000 messages, at least one; an encoder ahead of its
/// step on all batches in sequence. A colocated encoder takes the fewest passes that memory allows.
/// A plan that does not fit is sharded, recomputed or both: tables shard the optimizer's state over
/// whole copies, which the trainer only does together with the parameters, and they count memory
/// for mean samples.
///
/// cost: as a finalist of search_plan
[[nodiscard]] TrainerPlan trainer_plan(const plan::PlanningProblem& problem,
                                       const TrainerForm& form, config::RecomputePlan recompute);

}  // namespace tributary::studies
