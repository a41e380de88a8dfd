#include "plan/search/runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/judge/simulate_on.h"

namespace tributary::plan {
namespace {

constexpr double kMaxSpareRoom = 0.1;

/// Spare room for microbatches: other batches may have larger ones, as far as memory allows.
double spare_room(const PlanningProblem& problem, Bytes peak) {
  const Bytes left = problem.memory() - peak;
  return std::clamp(double(left.count) / double(peak.count), 0.0, kMaxSpareRoom);
}

/// The ratio of simulated steps to the same steps without shared links. Sharing links never
/// shortens a step, so it is at least 1, even where the trainer dispatches better than the search.
double sharing_of(const std::vector<Nanoseconds>& simulated,
                  const std::vector<Nanoseconds>& steps) {
  double with_links = 0;
  double alone = 0;
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    with_links += static_cast<double>(simulated[i].count);
    alone += static_cast<double>(steps[i].count);
  }
  return std::max(1.0, with_links / alone);
}

}  // namespace

Nanoseconds Runner::mean() const {
  return {std::llround(links * static_cast<double>(verdict.mean().count))};
}

void stable_sort_by_mean(std::vector<Runner>& runners) {
  std::stable_sort(runners.begin(), runners.end(),
                   [](const Runner& a, const Runner& b) { return a.mean() < b.mean(); });
}

FoundPlan finish_plan(const PlanningProblem& problem, BatchDeals& deals, const Runner& runner,
                      std::size_t simulated) {
  FoundPlan found{.choice = runner.choice,
                  .plan = to_plan(problem, runner.choice, runner.cuts),
                  .peak = runner.verdict.peak,
                  .fullest = runner.verdict.fullest};
  found.plan.batch.capacity_tokens =
      deals.capacity(found.plan, simulated, spare_room(problem, runner.verdict.peak));
  std::vector<Nanoseconds> steps = runner.verdict.steps;
  const auto lengthen = [&](double factor) {
    for (Nanoseconds& step : steps) step = {std::llround(factor * static_cast<double>(step.count))};
  };
  if (simulated == 0) {
    lengthen(std::max(1.0, runner.links));
  } else {
    const bool are_all = simulated == different_batches(problem);
    const simulate::Simulation simulation = simulate_on(problem, found.plan, deals, 0, simulated);
    found.links_shared = true;
    found.outside_grid = simulation.outside_grid;
    // With equal samples one batch represents all.
    found.simulated_batches =
        are_all ? std::ssize(problem.batches) : static_cast<std::int64_t>(simulated);
    if (!are_all) lengthen(sharing_of(simulation.steps, steps));
    steps.resize(std::max(steps.size(), simulation.steps.size()));
    std::ranges::copy(simulation.steps, steps.begin());
    const Bytes bytes = simulation.fullest.memory.total();
    if (are_all || bytes > found.peak) {
      found.peak = bytes;
      found.fullest = module_of(simulation, simulation.fullest.lane);
    }
  }
  found.plan.predicted.peak_bytes = {{found.fullest, found.peak}};
  const simulate::StepDistribution distribution = simulate::distribution_of(std::move(steps));
  found.step = distribution.mean;
  found.deviation = distribution.deviation;
  found.percentile_95 = distribution.percentile_95;
  return found;
}

}  // namespace tributary::plan
