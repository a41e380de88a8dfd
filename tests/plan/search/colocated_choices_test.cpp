#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "plan/candidates/list_candidates.h"
#include "plan/candidates/list_degrees.h"
#include "plan/chains/estimate_step.h"
#include "plan/judge/simulate_on.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

using config::PipelineOrder;
using config::RecomputePlan;

/// A backbone on four stages, and its encoder on the same ranks in so many passes.
struct Colocated {
  explicit Colocated(PlanningProblem of) : problem(std::move(of)), tables(problem) {}

  [[nodiscard]] StepEstimate estimate(std::int64_t passes, RecomputePlan level) {
    const PlanChoice choice = choice_of_passes(passes, level);
    StepEstimator estimator(problem, tables);
    const ChainForm encoder{.encoder = 0, .apart = 1, .recompute = level};
    return in_turns(estimator.backbone({.encoder = 1, .apart = 1}, choice),
                    estimator.colocated(encoder, *choice.encoders[0], choice));
  }
  [[nodiscard]] simulate::Simulation simulate(std::int64_t passes, RecomputePlan level) const {
    const std::int64_t encoder = units_of(*problem.model.find("vision"));
    const config::Plan plan =
        to_plan(problem, choice_of_passes(passes, level), {{0, encoder}, {0, 2, 3, 4, 6}});
    return simulate_on(problem, plan, std::ssize(problem.batches));
  }
  static PlanChoice choice_of_passes(std::int64_t passes, RecomputePlan level) {
    PlanChoice choice{.microbatches = 16};
    choice.backbone.mesh.pp = 4;
    choice.encoders = {
        ChainChoice{.mesh = {.dp_replicate = 4}, .recompute = level, .passes = passes}};
    return choice;
  }

  PlanningProblem problem;
  ChainTables tables;
};

PlanningProblem with_links(double speed, bool is_frozen) {
  PlanningProblem problem = tiny_problem(4, 64, 1, 3);
  if (is_frozen) problem.frozen = {"vision"};
  for (config::LinkLevel& level : problem.cluster.levels) level.bytes_per_s *= speed;
  return problem;
}

TEST(StepEstimator, FeaturesOfAPassTravelBesideTheLaterOnes) {
  for (const bool is_frozen : {true, false}) {
    for (const double speed : {1.0, 0.02}) {
      Colocated colocated(with_links(speed, is_frozen));
      const RecomputePlan level = RecomputePlan::kNone;
      const double one = colocated.estimate(1, level).value();
      const auto simulated_one =
          static_cast<double>(colocated.simulate(1, level).distribution.mean.count);
      // In 16 passes some ranks have nothing in a pass, which the estimate counts as a launch.
      for (const std::int64_t passes : {2, 4, 8}) {
        const double more = colocated.estimate(passes, level).value() - one;
        const double simulated =
            static_cast<double>(colocated.simulate(passes, level).distribution.mean.count) -
            simulated_one;
        EXPECT_NEAR(more, simulated, 0.008 * simulated_one)
            << passes << " passes, links of " << speed << (is_frozen ? ", frozen" : "");
      }
    }
  }
}

TEST(StepEstimator, MorePassesOfAColocatedEncoderHoldLess) {
  // Images that are large beside the texts: a pass of the encoder holds more than the backbone.
  PlanningProblem problem = tiny_problem(4, 64, 1, 3);
  for (config::LayerRun& run : problem.model.modules.back().layers)
    if (run.shape.kind == config::LayerKind::kBlock) run.shape.mlp_width *= 16;
  for (auto& batch : problem.batches)
    for (simulate::SampleSize& sample : batch) {
      sample.tokens = 700;
      sample.patches = 8 * 256;
      sample.items = 8;
    }
  for (const bool is_frozen : {true, false}) {
    problem.frozen.clear();
    if (is_frozen) problem.frozen = {"vision"};
    Colocated colocated(problem);
    const auto max = static_cast<double>(problem.memory().count);
    double before = 0;
    double simulated_before = 0;
    for (const std::int64_t passes : {1, 2, 4, 8}) {
      const double share = colocated.estimate(passes, RecomputePlan::kFull).memory_share;
      const simulate::Simulation simulation = colocated.simulate(passes, RecomputePlan::kFull);
      const double simulated = static_cast<double>(simulation.fullest.memory.total().count) / max;
      if (passes > 1) {
        EXPECT_NEAR(share - before, simulated - simulated_before, 0.05 * simulated)
            << passes << " passes" << (is_frozen ? ", frozen" : "");
      }
      before = share;
      simulated_before = simulated;
    }
  }
}

TEST(StepEstimator, FrozenEncodersInsideTheBackboneReduceNothing) {
  PlanningProblem problem = with_links(0.02, true);
  for (config::LayerRun& run : problem.model.modules.back().layers) run.layers *= 8;
  for (const std::int64_t shard : {1, 4}) {
    PlanChoice choice{.microbatches = 1};
    choice.backbone.mesh = {.dp_replicate = 4 / shard, .dp_shard = shard};
    choice.encoders.resize(1);
    ChainTables tables(problem);
    StepEstimator estimator(problem, tables);
    const double estimate = estimator.backbone({.encoder = 1}, choice).value();
    const std::int64_t units = units_of(*problem.model.find("backbone"));
    const simulate::Simulation simulation =
        simulate_on(problem, to_plan(problem, choice, {{0, units}}), std::ssize(problem.batches));
    const auto simulated = static_cast<double>(simulation.distribution.mean.count);
    EXPECT_NEAR(estimate, simulated, 0.3 * simulated) << shard << " shards";
  }
}

TEST(EncoderChoices, FrozenEncodersAreListedOnceWhateverIsRecomputed) {
  for (const std::int64_t memory : {500, 700, 1000, 4000}) {
    PlanningProblem problem = with_links(0.02, true);
    problem.cluster.device.memory = {memory << 20};
    problem.cluster.device.reserve = {};
    ChainTables tables(problem);
    std::set<std::string> seen;
    for (const Candidate& each : list_candidates(problem, tables, {.keep = 1'000'000}).candidates) {
      if (!each.choice.has_colocated()) continue;
      PlanChoice choice = each.choice;
      choice.encoders[0]->recompute = RecomputePlan::kNone;
      EXPECT_TRUE(seen.insert(describe(problem, choice)).second) << describe(problem, each.choice);
    }
  }
}

TEST(CellList, HasNoColocatedEncodersWhereAllSchedulesPutWeightGradientsOff) {
  PlanningProblem problem = tiny_problem(4, 12, 1, 11);
  const auto colocated = [&] {
    ChainTables tables(problem);
    const std::vector<Cell> cells = list_cells(problem, tables).cells;
    return std::count_if(cells.begin(), cells.end(),
                         [](const Cell& cell) { return cell.colocated >= 0; });
  };
  problem.space.schedules = {PipelineOrder::kZbH1, PipelineOrder::kZbV};
  EXPECT_EQ(colocated(), 0);
  problem.frozen = {"vision"};
  EXPECT_GT(colocated(), 0);
  problem.frozen.clear();
  problem.space.placements = {config::Placement::kColocated};
  ChainTables tables(problem);
  EXPECT_THAT(list_candidates(problem, tables).limit,
              testing::HasSubstr("placements: none of the space takes all 1 encoders"));
  problem.space.schedules.push_back(PipelineOrder::k1f1b);
  EXPECT_GT(colocated(), 0);
}

TEST(CellList, HasNoEncoderOfItsOwnWhereItsFeaturesComeTwiceOrItsInputFromTheBackbonesRanks) {
  PlanningProblem problem = tiny_problem(4, 12, 1, 11);
  const auto count = [&](const auto& has) {
    ChainTables tables(problem);
    const CellList list = list_cells(problem, tables);
    return std::count_if(list.cells.begin(), list.cells.end(),
                         [&](const Cell& cell) { return has(cell, list.forms[cell.form]); });
  };
  const auto is_colocated = [](const Cell& cell, const ChainForm&) { return cell.colocated >= 0; };
  const auto has_ranks = [](const Cell& cell, const ChainForm& form) {
    return cell.colocated < 0 && form.apart != 0;
  };
  ASSERT_GT(count(is_colocated), 0);
  problem.model.edges.push_back({"vision", "backbone"});  // beside those by the projector
  EXPECT_EQ(count(is_colocated), 0);
  EXPECT_GT(count(has_ranks), 0);
  EXPECT_FALSE(search_plan(problem).plans.empty());
  // What is without blocks has no mesh, and runs in the backbone's first stage.
  problem.model.edges = {{"projector", "vision"}, {"vision", "backbone"}};
  EXPECT_EQ(count(is_colocated), 0);
  EXPECT_EQ(count(has_ranks), 0);
}

}  // namespace
}  // namespace tributary::plan
