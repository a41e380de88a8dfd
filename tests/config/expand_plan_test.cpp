#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/plan/plan.h"
#include "config/reading/ranges.h"
#include "config/run/run_config.h"
#include "core/error.h"
#include "tests/config/vision_section.h"

namespace tributary::config {
namespace {

using testing::HasSubstr;

RunConfig run_of_model() {
  RunConfig run;
  run.batch = {.global_samples = 64,
               .capacity_tokens = {2048},
               .packing = Packing::kOnlineBestFit,
               .balance = Balance::kLpt};
  run.model.freeze = {"vision"};
  run.model.recompute = {{"backbone"}};
  return run;
}

TEST(ExpandPlan, KeepsTheRecomputeOfEachModule) {
  ModelConfig model;
  model.backbone.layers = 7;
  model.vision.emplace();
  RunConfig run = run_of_model();
  run.model.recompute = {{"vision"}, {"backbone", RecomputePlan::kSelective, 3}};
  const Plan plan = expand_plan({.dp_shard = 2}, {}, run, model);
  EXPECT_EQ(plan.find("vision")->recompute, RecomputePlan::kFull);
  EXPECT_EQ(plan.find("backbone")->recompute, RecomputePlan::kSelective);
  EXPECT_EQ(plan.find("vision")->recompute_every, 1);
  EXPECT_EQ(plan.find("backbone")->recompute_every, 3);
}

TEST(ExpandPlan, PutsTheEncoderIntoTheFirstStage) {
  ModelConfig model;
  model.backbone.layers = 7;
  model.vision.emplace();
  const PipelineSection pipeline{.schedule = PipelineOrder::kZbV, .microbatches = 8};
  const Plan plan = expand_plan({.pp = 2, .dp_shard = 2, .tp = 2}, pipeline, run_of_model(), model);
  EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
  EXPECT_NO_THROW(check_plan_of_model(plan, model, "plan"));
  const ModulePlan& backbone = *plan.find("backbone");
  EXPECT_EQ(write_ranks(backbone.ranks), "0-7");
  EXPECT_EQ(backbone.recompute, RecomputePlan::kFull);
  EXPECT_EQ(backbone.stages, (std::vector<StageLayers>{{.embed = true, .first = 0, .layers = 2},
                                                       {.first = 2, .layers = 2},
                                                       {.first = 4, .layers = 2},
                                                       {.first = 6, .layers = 1, .head = true}}));
  EXPECT_EQ(plan.find("vision")->placement, Placement::kInline);
  EXPECT_EQ(plan.find("vision")->train, TrainMode::kFrozen);
  EXPECT_EQ(plan.find("projector")->train, TrainMode::kFull);
  EXPECT_EQ(plan.batch.microbatches, 8);
  EXPECT_EQ(plan.batch.packing, Packing::kOnlineBestFit);
  EXPECT_EQ(plan.batch.balance, Balance::kLpt);
}

TEST(ExpandPlan, PlacesAModuleWithAMeshOfItsOwn) {
  ModelConfig model;
  model.backbone.layers = 7;
  model.vision.emplace().layers = 5;
  RunConfig run = run_of_model();
  ModuleSection& vision = vision_of(run.parallel);
  vision = {.module = "vision", .placement = Placement::kSeparate, .pp = 2, .dp_shard = {3}};
  const Plan plan = expand_plan({.dp_shard = 2}, {}, run, model);
  EXPECT_NO_THROW(check_plan_of_model(plan, model, "plan"));
  EXPECT_EQ(write_ranks(plan.find("backbone")->ranks), "0-1");
  EXPECT_EQ(plan.find("projector")->placement, Placement::kInline);
  const ModulePlan& tower = *plan.find("vision");
  EXPECT_EQ(tower.placement, Placement::kSeparate);
  EXPECT_EQ(write_ranks(tower.ranks), "2-7");
  EXPECT_EQ(tower.mesh, (MeshShape{.pp = 2, .dp_shard = 3}));
  EXPECT_EQ(tower.stages,
            (std::vector<StageLayers>{{.first = 0, .layers = 3}, {.first = 3, .layers = 2}}));
  EXPECT_EQ(tower.train, TrainMode::kFrozen);
  vision.pp = 6;
  EXPECT_THAT([&] { (void)expand_plan({.dp_shard = 2}, {}, run, model); },
              testing::ThrowsMessage<Error>(HasSubstr("module has fewer layers than stages")));
}

TEST(ExpandPlan, PlacesAColocatedModule) {
  ModelConfig model;
  model.backbone.layers = 7;
  model.vision.emplace().layers = 5;
  RunConfig run = run_of_model();
  vision_of(run.parallel) = {.module = "vision", .placement = Placement::kColocated, .passes = 3};
  const Plan plan = expand_plan({.pp = 2, .tp = 2}, {.microbatches = 2}, run, model);
  EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
  const ModulePlan& tower = *plan.find("vision");
  EXPECT_EQ(tower.ranks, plan.find("backbone")->ranks);
  EXPECT_EQ(tower.mesh, (MeshShape{.dp_shard = 4}));
  EXPECT_EQ(tower.passes, 3);
  EXPECT_EQ(plan.batch.microbatches, 4) << "as many as hold the passes";
  EXPECT_TRUE(trainer_limits(plan, "plan of the run").empty());
  run.batch.packing = Packing::kLevel;
  run.batch.microbatches = 2;
  EXPECT_THAT([&] { (void)expand_plan({.pp = 2, .tp = 2}, {}, run, model); },
              testing::ThrowsMessage<Error>(HasSubstr("more passes than microbatches")));
}

TEST(ExpandPlan, HasTheLevelMicrobatchesOfTheRun) {
  RunConfig run = run_of_model();
  run.batch.packing = Packing::kLevel;
  run.batch.microbatches = 6;
  ModelConfig model;
  model.backbone.layers = 7;
  const Plan plan = expand_plan({.pp = 2}, {.microbatches = 2}, run, model);
  EXPECT_EQ(plan.batch.packing, Packing::kLevel);
  EXPECT_EQ(plan.batch.microbatches, 6);
  EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
}

TEST(ExpandPlan, TakesTheLayersOfEachStage) {
  ModelConfig model;
  model.backbone.layers = 7;
  PipelineSection pipeline{.microbatches = 4, .layers_per_stage = {4, 3, 0}};
  const Plan plan = expand_plan({.pp = 3}, pipeline, run_of_model(), model);
  EXPECT_EQ(plan.find("backbone")->stages[2], (StageLayers{.head = true}));
  EXPECT_EQ(plan.modules.size(), 1U);
  const auto refusal = [&] { (void)expand_plan({.pp = 3}, pipeline, run_of_model(), model); };
  pipeline.layers_per_stage = {4, 3};
  EXPECT_THAT(refusal, testing::ThrowsMessage<Error>(HasSubstr("2 numbers; expected: 3: pp 3")));
  pipeline.layers_per_stage = {4, 2, 0};
  EXPECT_THAT(refusal, testing::ThrowsMessage<Error>(HasSubstr("found: 6; expected: 7")));
  pipeline.layers_per_stage = {7, 0, 0};
  EXPECT_THAT(refusal, testing::ThrowsMessage<Error>(
                           HasSubstr("layers_per_stage.1; found: 7 layers for 3")));
  pipeline = {.schedule = PipelineOrder::kInterleaved, .microbatches = 4};
  EXPECT_THAT(refusal, testing::ThrowsMessage<Error>(HasSubstr("a multiple of 3, twice")));
}

}  // namespace
}  // namespace tributary::config
