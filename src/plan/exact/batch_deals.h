#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plan/exact/planning_problem.h"

namespace tributary::plan {

/// The buckets of every batch, dealt once for each number of buckets; for many threads.
///
/// Balancing ends early here, as a search deals many times: simulations of the best plans deal
/// again with the usual effort.
class BatchDeals {
 public:
  explicit BatchDeals(const PlanningProblem& problem) : problem_(problem) {}

  /// The bucket of each sample; lives as long as this.
  [[nodiscard]] const std::vector<std::int32_t>& buckets(const config::BatchPlan& plan,
                                                         std::int64_t buckets, std::size_t batch);

 private:
  struct Deal {
    std::once_flag is_dealt;
    std::vector<std::int32_t> bucket_of;
  };
  const PlanningProblem& problem_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::size_t>, std::unique_ptr<Deal>> deals_;
};

}  // namespace tributary::plan
