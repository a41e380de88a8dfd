#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "plan/problem/planning_problem.h"
#include "schedule/step_plan.h"

namespace tributary::plan {

/// How batches are dispatched: by schedule::plan_step, as the trainer does it, with unlimited room
/// in a microbatch. Computed once for all plans that dispatch alike. Thread-safe.
class BatchDeals {
 public:
  /// evaluations: of balancing for buckets(), few because a search dispatches often; 0: the
  ///              trainer's number
  explicit BatchDeals(const PlanningProblem& problem, std::int64_t evaluations = 20'000)
      : problem_(problem), evaluations_(evaluations), equal_samples_(has_equal_samples(problem)) {}

  /// The bucket of each sample, as deal_samples takes them. Lives as long as this.
  [[nodiscard]] const std::vector<std::int32_t>& buckets(const config::Plan& plan,
                                                         std::size_t batch);

  /// The dispatch with the trainer's effort. Lives as long as this.
  [[nodiscard]] const schedule::StepPlan& step(const config::Plan& plan, std::size_t batch);

  /// The min capacity of a microbatch with which the trainer dispatches the first `batches` batches
  /// as step() says, and no less than any sample. With `batches` 0 it is that of the level buckets
  /// of all batches. Where samples differ, it is the fraction `spare` above the fullest microbatch.
  [[nodiscard]] Tokens capacity(const config::Plan& plan, std::size_t batches, double spare = 0);

 private:
  template <class Found>
  struct Once {
    std::once_flag is_found;
    Found found;
  };
  /// The entry of `places` for a key; its value is computed once.
  template <class Key, class Found>
  Once<Found>& place_of(std::map<Key, std::unique_ptr<Once<Found>>>& places, const Key& key);

  [[nodiscard]] schedule::StepPlan deal(const config::Plan& plan, std::size_t batch,
                                        std::int64_t evaluations);
  /// The loads that the trainer balances; they do not depend on the plan.
  [[nodiscard]] const std::vector<schedule::SampleLoad>& loads(std::size_t batch);

  using Buckets = std::vector<std::int32_t>;
  using StepKey = std::tuple<std::int64_t, schedule::Meeting, std::int64_t, std::size_t>;
  /// Replicas, when they meet, microbatches, and the batch: the first one where all are equal.
  [[nodiscard]] StepKey key_of(const config::Plan& plan, std::size_t batch) const;

  const PlanningProblem& problem_;
  std::int64_t evaluations_;
  bool equal_samples_;
  std::mutex mutex_;  // guards the maps, not their values
  std::map<StepKey, std::unique_ptr<Once<Buckets>>> buckets_;
  std::map<StepKey, std::unique_ptr<Once<schedule::StepPlan>>> steps_;
  std::map<std::size_t, std::unique_ptr<Once<std::vector<schedule::SampleLoad>>>> loads_;
};

}  // namespace tributary::plan
