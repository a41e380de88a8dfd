#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "plan/judge/batch_deals.h"
#include "plan/judge/cut_chains.h"
#include "plan/judge/plan_judge.h"
#include "plan/search/search_plan.h"

namespace tributary::plan {

/// A candidate in the race.
struct Runner {
  PlanChoice choice;
  std::vector<ChainCut> cuts;
  PlanVerdict verdict;
  double links = 1;  // factor that shared links put on a step, where known

  [[nodiscard]] Nanoseconds mean() const;
};

void stable_sort_by_mean(std::vector<Runner>& runners);

/// Simulates the runner's plan with shared links on the first `simulated` different batches, and
/// estimates the other batches from that.
[[nodiscard]] FoundPlan finish_plan(const PlanningProblem& problem, BatchDeals& deals,
                                    const Runner& runner, std::size_t simulated);

/// The judge and the cutter of one thread; both remember what they computed.
struct JudgeWorker {
  JudgeWorker(const PlanningProblem& problem, BatchDeals& deals)
      : judge(problem, deals), cutter(problem) {}
  PlanJudge judge;
  ChainCutter cutter;
};

/// Judges many plans at once, on several threads.
class JudgeWorkers {
 public:
  /// threads: 0: one for each core
  JudgeWorkers(const PlanningProblem& problem, BatchDeals& deals, int threads) {
    constexpr int kMaxThreads = 16;
    if (threads <= 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    for (int i = 0; i < std::min(threads, kMaxThreads); ++i)
      workers_.push_back(std::make_unique<JudgeWorker>(problem, deals));
  }

  /// Calls visit(worker, i) for all i < count, on all threads.
  template <class Visit>
  void for_all(std::size_t count, const Visit& visit) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::exception_ptr> failures(workers_.size());
    const auto work = [&](std::size_t index) {
      try {
        for (std::size_t i = next++; i < count; i = next++) visit(*workers_[index], i);
      } catch (...) {
        failures[index] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t index = 1; index < std::min(workers_.size(), count); ++index)
        threads.emplace_back(work, index);
      work(0);
    }
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

  [[nodiscard]] std::int64_t evaluations() const {
    std::int64_t sum = 0;
    for (const std::unique_ptr<JudgeWorker>& worker : workers_) sum += worker->judge.evaluations();
    return sum;
  }

 private:
  std::vector<std::unique_ptr<JudgeWorker>> workers_;
};

}  // namespace tributary::plan
