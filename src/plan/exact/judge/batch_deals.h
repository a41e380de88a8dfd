#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "plan/exact/planning_problem.h"
#include "schedule/step_plan.h"

namespace tributary::plan {

/// How much a deal looks for level buckets.
enum class DealEffort {
  kBrief,  // of a search, which deals many times
  kUsual,  // of a simulation
};

/// The buckets of every batch, dealt once for each number of them; for many threads.
///
/// Plans that the trainer runs are dealt as it does it: by StepDealer, at the least capacity that
/// makes so many microbatches. For all others the buckets are level.
class BatchDeals {
 public:
  explicit BatchDeals(const PlanningProblem& problem)
      : problem_(problem), equal_samples_(has_equal_samples(problem)) {}

  /// The bucket of each sample, as assign_buckets numbers them; lives as long as this.
  [[nodiscard]] const std::vector<std::int32_t>& buckets(const config::Plan& plan,
                                                         std::size_t batch,
                                                         DealEffort effort = DealEffort::kBrief);

  /// The capacity at which the trainer makes the plan's number of microbatches of the batches, and
  /// which no sample exceeds.
  [[nodiscard]] Tokens capacity(const config::Plan& plan);

 private:
  struct Deal {
    std::once_flag is_dealt;
    std::vector<std::int32_t> bucket_of;
  };
  struct Room {
    std::once_flag is_known;
    Tokens capacity;
  };
  using Key = std::tuple<std::int64_t, std::int64_t, bool>;  // replicas, microbatches, shards

  [[nodiscard]] std::vector<std::int32_t> deal_level(const config::Plan& plan, std::size_t batch,
                                                     DealEffort effort) const;
  [[nodiscard]] std::vector<std::int32_t> deal_as_trained(const config::Plan& plan,
                                                          std::size_t batch, Tokens capacity) const;
  [[nodiscard]] schedule::StepPlan plan_step(const config::Plan& plan, std::size_t batch,
                                             Tokens capacity) const;
  /// Microbatches of the replica that takes the most of any batch.
  [[nodiscard]] std::int64_t most_rounds(const config::Plan& plan, Tokens capacity) const;
  [[nodiscard]] Tokens find_capacity(const config::Plan& plan) const;

  const PlanningProblem& problem_;
  bool equal_samples_;
  std::mutex mutex_;  // of the maps, not of what they hold
  std::map<std::tuple<Key, std::size_t, DealEffort>, std::unique_ptr<Deal>> deals_;
  std::map<Key, std::unique_ptr<Room>> rooms_;
};

}  // namespace tributary::plan
