#include "studies/compare/trainer_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/judge/simulate_on.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::studies {
namespace {

using config::Placement;
using config::RecomputePlan;
using testing::HasSubstr;

TrainerForm separate() { return {.backbone = {1, 2, 2}, .microbatches = 4, .encoder = {1, 1, 2}}; }

TEST(TrainerPlan, OnDevicesOfTheirOwnLayersAreCutEvenly) {
  const plan::PlanningProblem problem = plan::tiny_problem(6, 16, 1, 1);
  const TrainerPlan placed = trainer_plan(problem, separate(), RecomputePlan::kFull);
  ASSERT_TRUE(placed.found) << placed.reason;
  const config::Plan& plan = placed.found->plan;
  EXPECT_EQ(placed.text,
            "backbone tp 1, pp 2, dp 2, full recompute; vision tp 1, pp 1, dp 2, full recompute; "
            "1f1b, 4 microbatches");
  EXPECT_EQ(plan.find("vision")->ranks, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(plan.find("backbone")->stages,
            (std::vector<config::StageLayers>{{.embed = true, .first = 0, .layers = 2},
                                              {.first = 2, .layers = 2, .head = true}}));
  EXPECT_EQ(placed.found->step, plan::simulate_on(problem, plan, 2).distribution.mean);
  EXPECT_EQ(plan.predicted.step, placed.found->step);
  EXPECT_EQ(placed.found->simulated_batches, 2);
}

TEST(TrainerPlan, InlineIsShardedOrWhole) {
  const plan::PlanningProblem problem = plan::tiny_problem(4, 16, 2, 1);
  TrainerForm form{
      .backbone = {1, 1, 4}, .microbatches = 2, .placement = Placement::kInline, .shards = true};
  const TrainerPlan sharded = trainer_plan(problem, form, RecomputePlan::kNone);
  form.shards = false;
  const TrainerPlan whole = trainer_plan(problem, form, RecomputePlan::kNone);
  ASSERT_TRUE(sharded.found && whole.found);
  EXPECT_EQ(sharded.found->plan.find("backbone")->mesh.dp_shard, 4);
  EXPECT_EQ(whole.found->plan.find("backbone")->mesh.dp_replicate, 4);
  EXPECT_EQ(sharded.found->plan.find("audio")->placement, Placement::kInline);
  EXPECT_LT(sharded.found->peak, whole.found->peak);
}

TEST(TrainerPlan, TheFirstStageMayHaveFewerLayersBesideTheEncoder) {
  const plan::PlanningProblem problem = plan::tiny_problem(2, 16, 1, 1);
  for (const std::int64_t beside : {0, 1}) {
    const TrainerForm form{.backbone = {1, 2, 1},
                           .microbatches = 4,
                           .placement = Placement::kInline,
                           .first_layers = beside};
    const TrainerPlan placed = trainer_plan(problem, form, RecomputePlan::kNone);
    ASSERT_TRUE(placed.found) << placed.reason;
    const std::vector<config::StageLayers>& stages = placed.found->plan.find("backbone")->stages;
    EXPECT_TRUE(stages[0].embed);
    EXPECT_EQ(stages[0].layers, beside);
    EXPECT_EQ(stages[1].layers, 4 - beside);
    EXPECT_NO_THROW(config::check_plan(placed.found->plan, "plan"));
  }
}

TEST(TrainerPlan, AnEncoderAheadOfItsStepGoesThroughAPool) {
  plan::PlanningProblem problem = plan::tiny_problem(6, 16, 1, 1);
  problem.frozen = {"vision", "projector"};
  TrainerForm form = separate();
  const TrainerPlan in_step = trainer_plan(problem, form, RecomputePlan::kNone);
  form.placement = Placement::kFlow;
  const TrainerPlan ahead = trainer_plan(problem, form, RecomputePlan::kNone);
  ASSERT_TRUE(in_step.found && ahead.found) << ahead.reason;
  EXPECT_EQ(ahead.found->plan.find("vision")->placement, Placement::kFlow);
  EXPECT_NO_THROW(config::check_plan(ahead.found->plan, "plan"));
  EXPECT_LT(ahead.found->step, in_step.found->step);
  EXPECT_EQ(ahead.found->step, plan::simulate_on(problem, ahead.found->plan, 2).distribution.mean);
  EXPECT_THAT(ahead.text, HasSubstr("encoder ahead of its step"));
  problem.frozen = {"vision"};  // its features are never of older weights
  const TrainerPlan projected = trainer_plan(problem, form, RecomputePlan::kNone);
  ASSERT_TRUE(projected.found) << projected.reason;
  EXPECT_EQ(projected.found->plan.find("vision")->placement, Placement::kFlow);
  EXPECT_EQ(projected.found->plan.find("projector")->train, config::TrainMode::kFull);
  problem.frozen = {"projector"};
  EXPECT_THAT(trainer_plan(problem, form, RecomputePlan::kNone).reason, HasSubstr("vision trains"));
}

TEST(TrainerPlan, AnEncoderBesideTheFirstStageTakesTurnsWithIt) {
  const plan::PlanningProblem problem = plan::tiny_problem(4, 16, 1, 1);
  const TrainerForm form{.backbone = {2, 2, 1},
                         .microbatches = 4,
                         .placement = Placement::kColocated,
                         .encoder = {1, 1, 2},
                         .first_stage_passes = 2};
  const TrainerPlan placed = trainer_plan(problem, form, RecomputePlan::kNone);
  ASSERT_TRUE(placed.found) << placed.reason;
  const config::Plan& plan = placed.found->plan;
  const config::ModulePlan& vision = *plan.find("vision");
  EXPECT_EQ(vision.placement, Placement::kColocated);
  EXPECT_EQ(vision.ranks, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(vision.mesh, (config::MeshShape{.dp_replicate = 2}));
  EXPECT_EQ(vision.passes, 2);
  EXPECT_TRUE(vision.turns);
  EXPECT_NO_THROW(config::check_plan(plan, "plan"));
  EXPECT_EQ(placed.found->step, plan::simulate_on(problem, plan, 2).distribution.mean);
  EXPECT_THAT(placed.text, HasSubstr("encoder tp 1, dp 2 beside the first stage in 2 passes"));
}

TEST(TrainerPlan, AColocatedEncoderTakesAsFewPassesAsMemoryAllows) {
  plan::PlanningProblem problem = plan::tiny_problem(4, 64, 1, 1);
  problem.frozen = {"vision"};
  for (std::vector<simulate::SampleSize>& batch : problem.batches)
    for (simulate::SampleSize& sample : batch) sample.patches *= 16;
  const TrainerForm form{.backbone = {1, 4, 1},
                         .microbatches = 16,
                         .placement = Placement::kColocated,
                         .encoder = {1, 1, 4}};
  const TrainerPlan roomy = trainer_plan(problem, form, RecomputePlan::kNone);
  ASSERT_TRUE(roomy.found) << roomy.reason;
  EXPECT_EQ(roomy.found->plan.find("vision")->passes, 1);
  problem.cluster.device.memory =
      problem.cluster.device.reserve + roomy.found->peak - Bytes{1 << 20};
  const TrainerPlan scarce = trainer_plan(problem, form, RecomputePlan::kNone);
  ASSERT_TRUE(scarce.found) << scarce.reason;
  EXPECT_GT(scarce.found->plan.find("vision")->passes, 1);
  EXPECT_LE(scarce.found->peak, problem.memory());
}

TEST(TrainerPlan, AColocatedEncoderMayTakeAPassForEachMicrobatch) {
  plan::PlanningProblem problem = plan::tiny_problem(4, 12, 1, 1);
  for (std::vector<simulate::SampleSize>& batch : problem.batches)
    for (simulate::SampleSize& sample : batch)
      sample = {.tokens = 100, .patches = 1 << 16, .items = 64};
  problem.frozen = {"vision"};
  const TrainerForm form{.backbone = {1, 4, 1},
                         .microbatches = 3,
                         .placement = Placement::kColocated,
                         .encoder = {1, 1, 4}};
  const TrainerPlan roomy = trainer_plan(problem, form, RecomputePlan::kNone);
  ASSERT_TRUE(roomy.found) << roomy.reason;
  Bytes min = roomy.found->peak;
  // Down to where none fits: a pass for each microbatch is the leanest.
  std::int64_t max_passes = 1;
  while (true) {
    problem.cluster.device.memory = problem.cluster.device.reserve + min - Bytes{1};
    const TrainerPlan scarce = trainer_plan(problem, form, RecomputePlan::kNone);
    if (!scarce.found) break;
    min = scarce.found->peak;
    max_passes = scarce.found->plan.find("vision")->passes;
  }
  EXPECT_EQ(max_passes, 3);
}

TEST(TrainerPlan, ShardsWhereWholeCopiesDoNotFit) {
  plan::PlanningProblem problem = plan::tiny_problem(4, 16, 1, 1);
  TrainerForm form{.backbone = {1, 1, 4}, .microbatches = 4, .placement = Placement::kInline};
  const TrainerPlan whole = trainer_plan(problem, form, RecomputePlan::kFull);
  form.shards = true;
  const TrainerPlan sharded = trainer_plan(problem, form, RecomputePlan::kFull);
  ASSERT_TRUE(whole.found && sharded.found);
  ASSERT_LT(sharded.found->peak, whole.found->peak);
  problem.cluster.device.memory = problem.cluster.device.reserve + sharded.found->peak;
  form.shards = false;
  const TrainerPlan scarce = trainer_plan(problem, form, RecomputePlan::kFull);
  ASSERT_TRUE(scarce.found) << scarce.reason;
  EXPECT_EQ(scarce.found->plan.find("backbone")->mesh.dp_shard, 4);
  EXPECT_EQ(scarce.found->step, sharded.found->step);
  EXPECT_THAT(scarce.text, HasSubstr("sharded to fit"));
  const TrainerPlan kept = trainer_plan(problem, form, RecomputePlan::kNone);
  ASSERT_TRUE(kept.found) << kept.reason;
  EXPECT_EQ(kept.found->step, sharded.found->step);
  EXPECT_THAT(kept.text, HasSubstr("sharded to fit, recomputed to fit"));
}

TEST(TrainerPlan, SaysWhyThereIsNone) {
  plan::PlanningProblem problem = plan::tiny_problem(8, 16, 1, 1);
  const auto reason = [&](const TrainerForm& form) {
    const TrainerPlan placed = trainer_plan(problem, form, RecomputePlan::kNone);
    EXPECT_FALSE(placed.found);
    return placed.reason;
  };
  TrainerForm form = separate();
  form.encoder.tp = 3;
  EXPECT_THAT(reason(form), HasSubstr("vision cannot be cut so: tp 3, pp 1"));
  form = {.backbone = {4, 1, 1}, .microbatches = 2, .placement = Placement::kInline};
  for (config::ModuleNode& module : problem.model.modules)
    if (module.name == "vision") module.layers.back().shape.heads = 6;
  EXPECT_THAT(reason(form), HasSubstr("vision cannot be cut so: tp 4, pp 1"));
  problem = plan::tiny_problem(8, 16, 1, 1);
  form = separate();
  form.backbone.pp = 7;
  EXPECT_THAT(reason(form), HasSubstr("backbone cannot be cut so: tp 1, pp 7"));
  form = {.backbone = {2, 1, 2}, .microbatches = 2, .encoder = {1, 1, 1}};
  EXPECT_THAT(reason(form), HasSubstr("behind 1 ranks of the encoder a tp group of 2"));
  problem.cluster.device.memory = problem.cluster.device.reserve + Bytes{1 << 20};
  EXPECT_THAT(reason(separate()), HasSubstr(" above the 1048576 B that it may hold"));
  problem = plan::tiny_problem(8, 16, 2, 1);
  EXPECT_THAT(reason(separate()), HasSubstr("2 encoders, which the method's tables take as one"));
}

}  // namespace
}  // namespace tributary::studies
