#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/requests/plan_request.h"
#include "config/trace/trace.h"
#include "core/json.h"
#include "plan/search/explain_plan.h"

namespace tributary::app {

/// An explanation simulates so many batches, the first ones.
inline constexpr std::int64_t kExplainedBatches = 2;

/// A plan of an answer, and what a person asks of it.
struct ListedPlan {
  plan::FoundPlan found;
  std::string refusal;      // by the trainer; empty: `train --plan` takes it
  double gap = 0;           // above the bound of plans of its kind
  double tokens_per_s = 0;  // of the backbone, all devices together
  double mfu = 0;           // 0: the peak of the devices is not known

  [[nodiscard]] bool trains() const { return refusal.empty(); }
};

struct PlanAnswer {
  plan::PlanningProblem problem = {};
  plan::PlanSearch search = {};  // its certificate is of plans of the first one's kind; the others
                                 // are counted in
  // Those that train first, by step; then those that do not and are faster than these.
  std::vector<ListedPlan> plans = {};
  double tokens = 0;  // of the backbone in a step, on the mean
  std::optional<plan::PlanExplanation> explanation = {};
  double milliseconds = 0;                           // of the search
  std::vector<config::BeyondGrid> beyond_grid = {};  // of the profile, by the best plan
  std::string note = {};                             // note_on_devices
};

/// The problem that a request states, with its batches drawn: recorded sizes, the mixture for
/// models with an encoder, else texts of one length.
///
/// errors: Fault::kInput naming the argument that cannot be used
[[nodiscard]] plan::PlanningProblem problem_of(const PlanRequest& request);

/// That one node was planned for where the request says no devices; empty where all were.
[[nodiscard]] std::string note_on_devices(const PlanRequest& request,
                                          const plan::PlanningProblem& problem);

/// How many plans may be asked for: as many as a search ends with.
///
/// errors: Fault::kInput naming the argument
void check_keep(const PlanOptions& options);

/// What the trainer, a clock and the devices say of a plan; its gap is above `bound`.
[[nodiscard]] ListedPlan list_plan(const PlanRequest& request, const plan::PlanningProblem& problem,
                                   plan::FoundPlan found, Nanoseconds bound);

/// Tokens of the backbone in a step, on the mean over the batches.
[[nodiscard]] double mean_tokens(const plan::PlanningProblem& problem);

/// So that whoever simulates the plan can take the same samples.
void note_samples(const PlanRequest& request, const plan::PlanningProblem& problem,
                  config::Plan& plan);

/// Searches for plans, and where the best one is none of the trainer's for its own too; that none
/// fits is an answer.
///
/// errors: Fault::kInput as problem_of and search_plan; where plans that train are asked for of a
///         model that the trainer does not know
[[nodiscard]] PlanAnswer answer_plan(const PlanRequest& request);

/// The object that docs/guides/plan.md explains, with so many plans of a kind at most.
[[nodiscard]] Json to_json(const PlanAnswer& answer, std::int64_t keep);

/// One of its `plans`, but for the gap; and its `explanation`.
[[nodiscard]] Json to_json(const ListedPlan& listed, const std::string& told);
[[nodiscard]] Json to_json(const plan::PlanExplanation& explanation);

}  // namespace tributary::app
