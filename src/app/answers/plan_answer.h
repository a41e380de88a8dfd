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

/// An explanation simulates this many of the first batches.
inline constexpr std::int64_t kExplainedBatches = 2;

/// A plan of an answer, with the figures that are shown for it.
struct ListedPlan {
  plan::FoundPlan found;
  std::string refusal;      // by the trainer; empty: `train --plan` accepts it
  double gap = 0;           // to the lower bound of the search that found it
  double tokens_per_s = 0;  // of the backbone, on all devices together
  double mfu = 0;           // 0: the peak FLOP/s of the devices is not known

  [[nodiscard]] bool trains() const { return refusal.empty(); }
};

struct PlanAnswer {
  plan::PlanningProblem problem = {};
  // Where the best plan trains, the certificate is for plans that train; the counts are of all.
  plan::PlanSearch search = {};
  // First those that train, by step; then faster ones that do not.
  std::vector<ListedPlan> plans = {};
  double tokens = 0;  // of the backbone in a step, mean over the batches
  std::optional<plan::PlanExplanation> explanation = {};
  double milliseconds = 0;                           // of the search
  std::vector<config::BeyondGrid> beyond_grid = {};  // of the best plan
  std::string note = {};                             // note_on_devices
};

/// The planning problem of a request. Its batches are drawn from recorded sizes; without them from
/// the mixture for a model with an encoder, else they are texts of one length.
///
/// errors: Fault::kInput naming the argument that cannot be used
[[nodiscard]] plan::PlanningProblem problem_of(const PlanRequest& request);

/// A note that only one node was planned for, where the request does not say how many devices;
/// empty where the plan is for all of them.
[[nodiscard]] std::string note_on_devices(const PlanRequest& request,
                                          const plan::PlanningProblem& problem);

/// errors: Fault::kInput where `keep` is not from 1 to the number of plans that a search returns
void check_keep(const PlanOptions& options);

/// Computes the figures that are shown for a plan; its gap is the one to `bound`.
[[nodiscard]] ListedPlan list_plan(const PlanRequest& request, const plan::PlanningProblem& problem,
                                   plan::FoundPlan found, Nanoseconds bound);

/// Tokens of the backbone in a step, mean over the batches.
[[nodiscard]] double mean_tokens(const plan::PlanningProblem& problem);

/// Records in the plan which samples it was judged with, so that a simulation can draw the same.
void note_samples(const PlanRequest& request, const plan::PlanningProblem& problem,
                  config::Plan& plan);

/// Searches for plans. Where the trainer refuses the best one, it also searches among the plans
/// that train. An answer without plans means that none fits.
///
/// errors: Fault::kInput as problem_of and search_plan; where only plans that train are wanted and
///         the trainer does not know the model
[[nodiscard]] PlanAnswer answer_plan(const PlanRequest& request);

/// The object that docs/guides/plan.md explains, with at most `keep` plans that train and at most
/// `keep` others.
[[nodiscard]] Json to_json(const PlanAnswer& answer, std::int64_t keep);

/// One element of its `plans`, and its `explanation`. told: the plan in words.
[[nodiscard]] Json to_json(const ListedPlan& listed, const std::string& told);
[[nodiscard]] Json to_json(const plan::PlanExplanation& explanation);

}  // namespace tributary::app
