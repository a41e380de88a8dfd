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

/// How batches are dispatched, computed once for all plans that dispatch alike. Thread-safe.
class BatchDeals {
 public:
  explicit BatchDeals(const PlanningProblem& problem)
      : problem_(problem), equal_samples_(has_equal_samples(problem)) {}

  /// The bucket of each sample, level and in the trainer's order of rounds, as deal_samples takes
  /// them. Balancing gets little effort, because a search dispatches often. Lives as long as this.
  [[nodiscard]] const std::vector<std::int32_t>& buckets(const config::Plan& plan,
                                                         std::size_t batch);

  /// The trainer's own dispatch, with unlimited room in a microbatch. Lives as long as this.
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

  /// Level buckets, the costliest first, for any number of replicas.
  [[nodiscard]] const std::vector<std::int32_t>& costliest_first(const config::Plan& plan,
                                                                 std::size_t batch);
  [[nodiscard]] std::vector<std::int32_t> deal_level(const config::Plan& plan, std::size_t batch,
                                                     std::int64_t buckets);
  /// The loads that the trainer balances; they do not depend on the plan.
  [[nodiscard]] const std::vector<schedule::SampleLoad>& loads(std::size_t batch);
  [[nodiscard]] schedule::StepPlan plan_step(const config::Plan& plan, std::size_t batch) const;

  using Buckets = std::vector<std::int32_t>;
  using BucketKey = std::tuple<std::int64_t, std::size_t>;              // buckets, batch
  using StepKey = std::tuple<std::int64_t, std::int64_t, std::size_t>;  // replicas, microbatches

  const PlanningProblem& problem_;
  bool equal_samples_;
  std::mutex mutex_;  // guards the maps, not their values
  std::map<BucketKey, std::unique_ptr<Once<Buckets>>> costliest_first_;
  std::map<StepKey, std::unique_ptr<Once<Buckets>>> buckets_;
  std::map<StepKey, std::unique_ptr<Once<schedule::StepPlan>>> steps_;
  std::map<std::size_t, std::unique_ptr<Once<std::vector<schedule::SampleLoad>>>> loads_;
};

}  // namespace tributary::plan
