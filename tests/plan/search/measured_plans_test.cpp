#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "cost/profile_costs.h"
#include "plan/judge/cut_chains.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/search_plan.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "tests/core/draws.h"
#include "tests/plan/search/brute_force.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

using config::CollectiveOp;
using config::PipelineOrder;
using config::RecomputePlan;

/// Rough measurements of the tiny model's layers: never quite linear, with steps that a machine
/// has.
config::Profile measure(const PlanningProblem& problem, const std::vector<std::int64_t>& groups,
                        std::int64_t cores, std::uint64_t seed,
                        const std::vector<std::int64_t>& tp = {1},
                        std::int64_t max_of_microbatch = 900'000) {
  RandomStream random(seed, "measured_plans_test");
  config::Profile profile{.model = "tiny", .device = "cpu", .cores = cores};
  profile.memory = {std::int64_t{16} << 30};
  for (const config::ModuleNode& node : problem.model.modules)
    for (std::size_t i = 0; i < tp.size() * node.layers.size(); ++i) {
      const config::LayerRun& run = node.layers[i / tp.size()];
      const std::int64_t degree = tp[i % tp.size()];
      config::ProfileTable table{.module = node.name,
                                 .layer = cost::layer_name(run.shape),
                                 .dtype = config::Dtype::kFloat32,
                                 .tp = degree,
                                 .threads = 1};
      table.parameters = {4 * cost::count_layer_parameters(run.shape) / degree};
      for (const std::int64_t tokens : {200, 900, 2500, 6000}) {
        // Parts of a layer may take less than their part of the time: they fit into caches.
        const std::int64_t time = tokens * random.between(200, 3000) / (degree * degree);
        table.points.push_back({.tokens = {tokens},
                                .forward = {time},
                                .input_gradient = {time},
                                .weight_gradient = {time * random.between(1, 9) / 8},
                                .recompute = {time},
                                .activation = {tokens * 4000},
                                .activation_recomputed = {tokens * 1000}});
      }
      profile.layers.push_back(std::move(table));
    }
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                CollectiveOp::kReduceScatter, CollectiveOp::kSend}) {
    config::CollectiveTable table{.op = op};
    for (const std::int64_t ranks : groups)
      for (std::int64_t bytes = 1024; bytes <= 1 << 24; bytes *= 16)
        table.points.push_back({.ranks = ranks,
                                .bytes = {bytes},
                                .time = {30'000 + bytes * random.between(1, 4) / 4}});
    profile.collectives.push_back(std::move(table));
  }
  profile.steps.push_back({.ranks = 1,
                           .threads = 1,
                           .step = {400'000},
                           .microbatch = {random.between(0, max_of_microbatch)},
                           .optimizer = {900'000},
                           .parameters = 1'000'000,
                           .process = {100 << 20}});
  return profile;
}

PlanningProblem measured_problem(std::int64_t devices, int encoders, std::int64_t cores,
                                 std::uint64_t seed, const std::vector<std::int64_t>& tp = {1},
                                 std::int64_t max_of_microbatch = 900'000) {
  PlanningProblem problem = tiny_problem(devices, 6, encoders, seed);
  problem.model = tiny_model(2, encoders);
  const config::Profile profile = measure(problem, {2, 4}, cores, seed, tp, max_of_microbatch);
  problem.cluster = cost::cluster_of(profile, devices, "p.json");
  problem.threads = 1;
  problem.measured = std::make_shared<const cost::ProfileCosts>(profile, devices, 1, "p.json");
  problem.space.schedules = {PipelineOrder::k1f1b, PipelineOrder::kZbH1};
  problem.space.recompute = {RecomputePlan::kNone, RecomputePlan::kFull};
  problem.space.max_tp = tp.back();
  return problem;
}

TEST(MeasuredPlans, NoPlanIsBelowTheBoundAndHardlyAnyBelowTheAnswer) {
  std::uint64_t optimal = 0;
  double worst = 1;
  const std::uint64_t problems = draws(40);
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    // Half of them have more ranks than cores.
    const PlanningProblem problem =
        measured_problem(seed % 4 < 2 ? 2 : 4, static_cast<int>(seed % 2), 2, seed);
    const PlanSearch search = search_plan(problem);
    BruteForce brute(problem);
    const Nanoseconds best = brute.run();
    ASSERT_FALSE(search.plans.empty()) << seed << ": " << search.certificate.limit;
    EXPECT_LE(search.certificate.lower_bound, best) << "seed " << seed << ": " << brute.plan();
    ChainTables tables(problem);  // the bound that no plan's step has been compared with
    EXPECT_LE(list_candidates(problem, tables).lower_bound, best)
        << "seed " << seed << ": " << brute.plan();
    EXPECT_GE(search.certificate.value, best) << "seed " << seed << ": a plan outside of the space";
    for (const FoundPlan& found : search.plans)
      EXPECT_EQ(found.choice.devices(), problem.devices) << "as many ranks as were measured";
    const double ratio = double(search.certificate.value.count) / double(best.count);
    worst = std::max(worst, ratio);
    if (ratio == 1) ++optimal;
    EXPECT_LE(ratio, 1.10) << "seed " << seed << ": " << brute.plan()
                           << "\n     search: " << describe(problem, search.plans.front().choice);
  }
  std::cout << optimal << " of " << problems << " answers equal to brute force, worst ratio "
            << worst << '\n';
  EXPECT_GE(optimal, problems * 8 / 10);
}

TEST(MeasuredPlans, NoPlanIsBelowTheBoundWhereHalvesOfALayerTakeLessThanHalf) {
  std::uint64_t tensor_parallel = 0;
  const std::uint64_t problems = draws(24);
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    const PlanningProblem problem =
        measured_problem(seed % 4 < 2 ? 2 : 4, static_cast<int>(seed % 2), 4, seed, {1, 2});
    BruteForce brute(problem);
    const Nanoseconds best = brute.run();
    ChainTables tables(problem);
    const CandidateList list = list_candidates(problem, tables);
    EXPECT_LE(list.lower_bound, best) << "seed " << seed << ": " << brute.plan();
    EXPECT_GT(list.lower_bound.count, 0);
    if (brute.plan().find("tp 2") != std::string::npos) ++tensor_parallel;
  }
  EXPECT_GE(tensor_parallel, problems / 8) << "halves are hardly ever worth it";
}

TEST(MeasuredPlans, NoPlanIsBelowTheBoundWhereOneBatchIsSmaller) {
  std::uint64_t feasible = 0;
  const std::uint64_t problems = draws(15);
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    const std::int64_t devices = seed % 3 == 0 ? 2 : 1;
    PlanningProblem problem =
        measured_problem(devices, static_cast<int>(seed % 2), 4, seed, {1}, 400'000'000);
    problem.space.schedules = {PipelineOrder::k1f1b};
    problem.space.recompute = {RecomputePlan::kNone};
    RandomStream random(seed, "trained");
    const bool is_level = random.below(2) == 0;
    for (simulate::SampleSize& sample : problem.batches[0])
      if (is_level) sample = {.tokens = 1000};
    for (std::size_t i = 0; i < problem.batches[1].size(); ++i) {
      problem.batches[1][i] = problem.batches[0][i];
      problem.batches[1][i].tokens /= is_level ? 2 : random.between(1, 6);
    }
    problem.cluster.device.reserve = {};
    for (std::int64_t memory = 300; memory <= 900; memory += 10) {
      problem.cluster.device.memory = {memory << 20};
      BruteForce brute(problem);
      const Nanoseconds best = brute.run();
      if (brute.plan().empty()) continue;
      ++feasible;
      ChainTables tables(problem);
      const Nanoseconds bound = list_candidates(problem, tables).lower_bound;
      EXPECT_LE(bound, best) << "seed " << seed << ", " << memory << " MiB: " << brute.plan();
      EXPECT_GE(7 * bound.count, best.count) << "seed " << seed << ", " << memory << " MiB";
    }
  }
  EXPECT_GE(feasible, 16 * problems);
}

TEST(MeasuredPlans, NoPlanIsBelowTheBoundWhereAttentionIsApart) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const std::int64_t devices = seed % 4 < 2 ? 2 : 4;
    PlanningProblem problem = measured_problem(devices, static_cast<int>(seed % 2), 2, seed);
    config::Profile profile = measure(problem, {2, 4}, 2, seed);
    RandomStream random(seed, "attention");
    for (config::ProfileTable& table : profile.layers) {
      if (!table.layer.ends_with("block")) continue;
      for (const std::int64_t attended : {40, 150, 700, 2000}) {
        const Nanoseconds time{4000 * attended * random.between(1, 6)};
        table.attention.push_back({.attended = static_cast<double>(attended),
                                   .tokens = {4000},
                                   .forward = time,
                                   .gradient = time * random.between(1, 3)});
      }
    }
    problem.measured = std::make_shared<const cost::ProfileCosts>(profile, devices, 1, "p.json");
    BruteForce brute(problem);
    const Nanoseconds best = brute.run();
    ChainTables tables(problem);
    const Nanoseconds bound = list_candidates(problem, tables).lower_bound;
    EXPECT_LE(bound, best) << "seed " << seed << ": " << brute.plan();
    EXPECT_GE(7 * bound.count, best.count) << "seed " << seed;
  }
}

TEST(MeasuredPlans, LeavesOutDegreesThatWereNotMeasuredAndSaysWhich) {
  PlanningProblem problem = measured_problem(4, 1, 0, 3);
  problem.space.max_tp = 8;
  const PlanSearch search = search_plan(problem);
  ASSERT_FALSE(search.plans.empty()) << search.certificate.limit;
  EXPECT_GT(search.left_out.cells, 0);
  EXPECT_THAT(search.left_out.degrees, testing::IsSupersetOf({"backbone tp 2", "backbone tp 4"}));
  for (const FoundPlan& found : search.plans) EXPECT_EQ(found.choice.backbone.mesh.tp, 1);
}

TEST(MeasuredPlans, SaysWhatWasMeasuredWhereThatIsNoPlan) {
  PlanningProblem problem = measured_problem(4, 0, 0, 3);
  problem.space.max_stages = 1;
  problem.space.replicates = false;
  config::Profile lacking = measure(problem, {4}, 0, 3);
  lacking.collectives.erase(lacking.collectives.begin() + 1);  // all_gather
  problem.measured = std::make_shared<const cost::ProfileCosts>(lacking, 4, 1, "p.json");
  const PlanSearch search = search_plan(problem);
  EXPECT_TRUE(search.plans.empty());
  EXPECT_THAT(search.certificate.limit,
              testing::AllOf(testing::HasSubstr("backbone dp_shard 4"),
                             testing::HasSubstr("the profile has tp 1 on 1 thread; all_reduce of 4;"
                                                " reduce_scatter of 4; send of 4")));
  problem.devices = 3;
  EXPECT_THAT([&] { (void)search_plan(problem); },
              testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr("where: devices"),
                                                           testing::HasSubstr("all_reduce of 4"))));
}

TEST(MeasuredPlans, AreJudgedAsTheSimulatorTimesThem) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    // Enough cores, so that replicas are run one by one.
    const PlanningProblem problem = measured_problem(4, 1, 4, seed);
    BatchDeals deals(problem);
    PlanJudge judge(problem, deals);
    ChainCutter cutter(problem);
    for (const config::MeshShape mesh :
         {config::MeshShape{.dp_shard = 4}, config::MeshShape{.dp_replicate = 2, .dp_shard = 2},
          config::MeshShape{.pp = 2, .dp_shard = 2}, config::MeshShape{.pp = 4}}) {
      PlanChoice choice{.microbatches = 1};
      choice.backbone.mesh = mesh;
      choice.encoders.resize(1);
      const std::vector<ChainCut> cuts = cutter.cut(choice, judge);
      for (std::size_t batch = 0; batch < 2; ++batch) {
        const PlanVerdict verdict = judge.judge(choice, cuts, batch, batch + 1);
        const config::Plan plan = to_plan(problem, choice, cuts);
        // With the same buckets.
        const simulate::Simulation simulation = simulate::simulate(
            plan, costs_on(problem, plan), problem.cluster,
            {.samples = {.kind = simulate::SampleSource::Kind::kGiven,
                         .given = {simulate::deal_samples(
                             schedule::pipeline_of(plan),
                             std::vector<cost::Media>(1, cost::Media::kPatches),
                             problem.batches[batch], deals.buckets(plan, batch))}}});
        const auto step = double(simulation.steps[0].count);
        EXPECT_NEAR(double(verdict.steps[0].count), step, 0.02 * step)
            << describe(problem, choice) << ", seed " << seed;
        const auto peak = double(simulation.fullest.memory.total().count);
        EXPECT_NEAR(double(verdict.peak.count), peak, 0.03 * peak) << describe(problem, choice);
      }
    }
  }
}

}  // namespace
}  // namespace tributary::plan
