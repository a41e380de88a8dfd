#include <gtest/gtest.h>
#include <iostream>
#include <map>
#include <optional>

#include "plan/search/search_plan.h"
#include "studies/compare/trainer_plan.h"
#include "studies/dflop/search_3d.h"
#include "studies/methods/recompute_levels.h"
#include "tests/core/draws.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::studies {
namespace {

plan::PlanningProblem random_problem(std::uint64_t seed) {
  RandomStream random(seed, "baseline_plans_test");
  const std::int64_t sizes[] = {2, 4, 6, 8, 16};
  const std::int64_t devices = sizes[random.below(5)];
  plan::PlanningProblem problem =
      plan::tiny_problem(devices, devices * random.between(1, 3), /*encoders=*/1, seed);
  problem.model = plan::tiny_model(random.between(2, 8), 1);
  if (random.below(4) == 0) problem.frozen = {"vision"};
  const std::int64_t memories[] = {1500, 3000, 8000};
  problem.cluster.device.memory = {memories[random.below(3)] << 20};
  problem.cluster.device.reserve = {};
  for (config::LinkLevel& level : problem.cluster.levels)
    level.bytes_per_s *= random.below(2) == 0 ? 1 : 0.1;
  problem.space.chunks = {2};
  return problem;
}

/// A published system's plan in the trainer's form.
struct PublishedPlan {
  std::string of;
  TrainerForm form;
  config::RecomputePlan recompute;
};

/// Of all systems whose plans have such a form on these tables, but for encoders ahead of their
/// step: those are no part of the search's space.
std::vector<PublishedPlan> published_plans(const plan::PlanningProblem& problem) {
  std::vector<PublishedPlan> plans;
  for (const RecomputedTables& tables : recompute_levels(
           problem.model, problem.cluster,
           {.devices = problem.devices, .batches = problem.batches, .frozen = problem.frozen})) {
    const auto add = [&](std::string_view name, const std::optional<TrainerForm>& form) {
      if (form && form->placement != config::Placement::kFlow)
        plans.push_back({std::string(name), *form, tables.recompute});
    };
    for (const PipelineBaseline& baseline : pipeline_baselines())
      if (baseline.role != BaselineRole::kBound)
        add(baseline.name, baseline.solve(tables.problem).form);
    for (const Plan3d& each : search_3d(tables.problem.costs, {.keep = 3}).plans)
      add("published_objective", form_of(each));
  }
  return plans;
}

TEST(SearchPlan, IsNeverWorseThanAPublishedSystemUnderTheSameSimulator) {
  std::map<std::string, std::uint64_t> compared;
  const std::uint64_t problems = draws(200);
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    const plan::PlanningProblem problem = random_problem(seed);
    const plan::PlanSearch search = plan::search_plan(problem);
    for (const PublishedPlan& plan : published_plans(problem)) {
      for (const bool shards : {false, true}) {
        TrainerForm form = plan.form;
        form.shards = shards;
        const TrainerPlan placed = trainer_plan(problem, form, plan.recompute);
        if (!placed.found) continue;
        ++compared[plan.of];
        ASSERT_FALSE(search.plans.empty()) << "seed " << seed << ": " << search.certificate.limit;
        EXPECT_LE(search.certificate.value, placed.found->step)
            << "seed " << seed << ", " << plan.of << ": " << placed.text
            << "\n  search: " << describe(problem, search.plans.front().choice) << ", "
            << problem.devices << " devices";
      }
    }
  }
  for (const auto& [name, times] : compared) {
    std::cout << name << ": " << times << " plans\n";
    EXPECT_GE(times, problems / 2) << name;
  }
  EXPECT_GE(compared.size(), 12U);
}

}  // namespace
}  // namespace tributary::studies
