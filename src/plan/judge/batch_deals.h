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

/// How the batches are dealt, found once for all plans that deal alike; for many threads.
class BatchDeals {
 public:
  explicit BatchDeals(const PlanningProblem& problem)
      : problem_(problem), equal_samples_(has_equal_samples(problem)) {}

  /// Level buckets, made with little effort for a search that deals many times: the bucket of each
  /// sample as deal_samples takes them, in the trainer's order of rounds; lives as long as this.
  [[nodiscard]] const std::vector<std::int32_t>& buckets(const config::Plan& plan,
                                                         std::size_t batch);

  /// The same as the trainer does it, whatever room microbatches have; lives as long as this.
  [[nodiscard]] const schedule::StepPlan& step(const config::Plan& plan, std::size_t batch);

  /// The least room of a microbatch in which the trainer deals the first batches so, and which no
  /// sample exceeds; of no batch, that of the level buckets of all. Where samples differ it has the
  /// share `spare` above the fullest microbatch.
  [[nodiscard]] Tokens capacity(const config::Plan& plan, std::size_t batches, double spare = 0);

 private:
  template <class Found>
  struct Once {
    std::once_flag is_found;
    Found found;
  };
  /// The place of what is found once for a key.
  template <class Key, class Found>
  Once<Found>& place_of(std::map<Key, std::unique_ptr<Once<Found>>>& places, const Key& key);

  /// The same, the costliest bucket first: however many replicas share them.
  [[nodiscard]] const std::vector<std::int32_t>& costliest_first(const config::Plan& plan,
                                                                 std::size_t batch);
  [[nodiscard]] std::vector<std::int32_t> deal_level(const config::Plan& plan, std::size_t batch,
                                                     std::int64_t buckets);
  /// What the trainer levels by; the same whatever the plan.
  [[nodiscard]] const std::vector<schedule::SampleLoad>& loads(std::size_t batch);
  [[nodiscard]] schedule::StepPlan plan_step(const config::Plan& plan, std::size_t batch) const;

  using Buckets = std::vector<std::int32_t>;
  using BucketKey = std::tuple<std::int64_t, std::size_t>;              // buckets, batch
  using StepKey = std::tuple<std::int64_t, std::int64_t, std::size_t>;  // replicas, microbatches

  const PlanningProblem& problem_;
  bool equal_samples_;
  std::mutex mutex_;  // of the maps, not of what they hold
  std::map<BucketKey, std::unique_ptr<Once<Buckets>>> costliest_first_;
  std::map<StepKey, std::unique_ptr<Once<Buckets>>> buckets_;
  std::map<StepKey, std::unique_ptr<Once<schedule::StepPlan>>> steps_;
  std::map<std::size_t, std::unique_ptr<Once<std::vector<schedule::SampleLoad>>>> loads_;
};

}  // namespace tributary::plan
