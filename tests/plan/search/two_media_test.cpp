#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/explain_plan.h"
#include "plan/search/search_plan.h"
#include "tests/plan/search/brute_force.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

using config::PipelineOrder;
using config::Placement;
using config::RecomputePlan;

TEST(TwoMedia, PlansAreWorthInASimulationWhatTheSearchSays) {
  int placed[3] = {0, 0, 0};  // inline, colocated, separate
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RandomStream random(seed, "worth of two media");
    PlanningProblem problem = tiny_omni_problem(random.between(1, 12), random.between(1, 40), seed);
    mix(problem, static_cast<Mixed>(random.below(4)));
    if (random.below(3) == 0) problem.frozen = {"audio"};
    const PlanSearch search =
        search_plan(problem, {.candidates = {.keep = 60}, .finalists = 6, .threads = 2});
    for (const FoundPlan& found : search.plans) {
      config::check_plan(found.plan, "plan");
      EXPECT_EQ(simulate_on(problem, found.plan, 2).distribution.mean, found.step)
          << describe(problem, found.choice) << ", seed " << seed;
      for (const std::optional<ChainChoice>& encoder : found.choice.encoders)
        ++placed[!encoder ? 0 : encoder->is_colocated() ? 1 : 2];
    }
  }
  for (const int times : placed) EXPECT_GE(times, 5);
}

/// All modules together in one pipeline of equal replicas, layers dealt evenly.
std::vector<std::pair<PlanChoice, ChainCut>> homogeneous_plans(const PlanningProblem& problem) {
  std::vector<std::pair<PlanChoice, ChainCut>> plans;
  const std::int64_t units = units_of(*problem.model.find("backbone"));
  for (const config::MeshShape& mesh :
       all_meshes(problem, *problem.model.find("backbone"), problem.devices)) {
    const std::int64_t replicas = mesh.dp_replicate * mesh.dp_shard;
    if (mesh.pp > units || replicas > problem.global_samples()) continue;
    ChainCut cut;
    for (std::int64_t stage = 0; stage <= mesh.pp; ++stage) cut.push_back(units * stage / mesh.pp);
    for (const std::int64_t rounds : microbatch_numbers(problem, mesh.pp, replicas))
      for (const RecomputePlan level : problem.space.recompute) {
        PlanChoice choice{.encoders = {{}, {}}, .microbatches = rounds};
        choice.backbone = {.mesh = mesh, .recompute = level};
        if (is_aligned(problem, choice)) plans.emplace_back(choice, cut);
      }
  }
  return plans;
}

TEST(TwoMedia, IsNeverWorseThanAHomogeneousPlan) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    RandomStream random(seed, "homogeneous");
    const std::int64_t sizes[] = {2, 4, 8};
    const std::int64_t devices = sizes[random.below(3)];
    PlanningProblem problem = tiny_omni_problem(devices, devices * random.between(1, 3), seed);
    problem.cluster.device.memory = {random.between(1500, 6000) << 20};
    for (config::LinkLevel& level : problem.cluster.levels)
      level.bytes_per_s *= random.below(2) == 0 ? 1 : 0.1;
    const PlanSearch search = search_plan(problem);
    ASSERT_FALSE(search.plans.empty()) << "seed " << seed << ": " << search.certificate.limit;
    BatchDeals deals(problem);
    for (const auto& [choice, cut] : homogeneous_plans(problem)) {
      config::Plan plan = to_plan(problem, choice, {cut});
      plan.batch.capacity_tokens = deals.capacity(plan, problem.batches.size());
      const simulate::Simulation simulation =
          simulate_on(problem, plan, std::ssize(problem.batches));
      if (simulation.out_of_memory) continue;
      ++compared;
      EXPECT_LE(search.certificate.value, simulation.distribution.mean)
          << "seed " << seed << ": " << describe(problem, choice)
          << "\n  search: " << describe(problem, search.plans.front().choice);
    }
  }
  EXPECT_GE(compared, 200);
}

TEST(TwoMedia, AnExplanationKeepsTheStep) {
  const PlanningProblem problem = tiny_omni_problem(4, 12, 9);
  const PlanSearch search = search_plan(problem);
  const PlanExplanation explanation = explain_plan(problem, search.plans.front(), 2);
  EXPECT_EQ(explanation.step, search.certificate.value);
  EXPECT_TRUE(std::ranges::any_of(explanation.remedies, [](const Remedy& remedy) {
    return remedy.change == "samples that are all of the mean size";
  }));
}

TEST(TwoMedia, MoreSoundTakesLongerAndAskedForSoundIsHeard) {
  PlanningProblem problem = tiny_omni_problem(4, 12, 3);
  const Nanoseconds some = search_plan(problem).certificate.value;
  for (std::vector<simulate::SampleSize>& batch : problem.batches)
    for (simulate::SampleSize& sample : batch) sample.frames *= 4;
  EXPECT_GT(search_plan(problem).certificate.value, some);
  problem.model = tiny_model(4, 1);
  EXPECT_THAT([&] { (void)search_plan(problem); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("model does not encode sound beside images")));
}

}  // namespace
}  // namespace tributary::plan
