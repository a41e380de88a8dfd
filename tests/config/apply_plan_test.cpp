#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/plan/plan.h"
#include "config/reading/ranges.h"
#include "config/run/module_places.h"
#include "config/run/read_run_config.h"
#include "config/run/run_config.h"
#include "core/error.h"
#include "tests/config/small_model.h"
#include "tests/config/vision_section.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSmallPlan = R"({
  "format": "tributary.plan/1",
  "modules": {
    "vision": {"placement": "separate", "ranks": "0-1", "mesh": {"dp_shard": 2},
               "stages": [["0-3"]], "train": "frozen"},
    "projector": {"placement": "inline"},
    "backbone": {"ranks": "2-5", "mesh": {"pp": 2, "dp_shard": 2},
                 "stages": [["embed", "0-4"], ["5-7", "head"]],
                 "schedule": "zb_h1", "recompute": "selective"}},
  "edges": [{"from": "vision", "to": "projector"}, {"from": "projector", "to": "backbone"}],
  "batch": {"global_samples": 32, "microbatches": 4, "capacity_tokens": 2048}})";

/// A run with the plan above, changed by a JSON merge patch.
RunConfig planned(const std::string& patch) {
  // Tests run at the same time, so each has a file of its own.
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path = (std::filesystem::path(testing::TempDir()) / (name + ".json")).string();
  nlohmann::json json = nlohmann::json::parse(kSmallPlan);
  json.merge_patch(nlohmann::json::parse(patch));
  std::ofstream(path) << json.dump();
  RunConfig config;
  config.parallel.plan = path;
  config.model.freeze = {"backbone"};
  return config;
}

TEST(ApplyPlan, DecidesDegreesStagesAndBatch) {
  const RunConfig config = apply_plan(planned("{}"));
  EXPECT_EQ(config.parallel.pp.count, 3);
  EXPECT_EQ(config.parallel.vision_stages, 1);
  EXPECT_EQ(config.parallel.dp_shard.count, 2);
  EXPECT_EQ(config.parallel.schedule, PipelineOrder::kZbH1);
  EXPECT_THAT(config.model.freeze, ElementsAre("vision"));
  EXPECT_THAT(config.model.recompute,
              ElementsAre(ModuleRecompute{"backbone", RecomputePlan::kSelective}));
  EXPECT_EQ(config.batch.global_samples, 32);
  EXPECT_EQ(config.batch.capacity_tokens.count, 2048);
  EXPECT_EQ(config.batch.balance, Balance::kNone) << "the plan's, not the run's";
  EXPECT_EQ(apply_plan(planned(R"({"batch": {"balance": "lpt"}})")).batch.balance, Balance::kLpt);
}

TEST(ApplyPlan, TakesASeparateTowerWithAnyMeshAndRanks) {
  RunConfig run = planned(R"({"modules": {"vision": {"ranks": "1,3,6", "mesh": {"dp_shard": 3}},
                                          "backbone": {"ranks": "0,2,4-5"}}})");
  run.parallel.vision_stages = 1;
  const RunConfig config = apply_plan(run);
  EXPECT_EQ(config.parallel.vision_stages, 0) << "the plan's, not the run's";
  EXPECT_EQ(config.parallel.pp.count, 2);
  EXPECT_EQ(vision_of(config.parallel), (ModuleSection{.module = "vision",
                                                       .placement = Placement::kSeparate,
                                                       .ranks = {1, 3, 6},
                                                       .dp_shard = {3}}));
  run = planned(R"({"modules": {"vision": {"placement": "inline", "ranks": null, "mesh": null,
                                           "stages": null},
                                "backbone": {"ranks": "0-3"}}})");
  vision_of(run.parallel) = vision_of(config.parallel);
  EXPECT_EQ(apply_plan(run).parallel.modules, inline_sections()) << "the plan's, not the run's";
}

TEST(ApplyPlan, TakesTheNumberOfMicrobatchesWhereTheyAreLevel) {
  RunConfig config = apply_plan(planned(R"({"batch": {"balance": "lpt", "packing": "level"}})"));
  EXPECT_EQ(config.batch.packing, Packing::kLevel);
  EXPECT_EQ(config.batch.microbatches, 4);
  RunConfig run = planned(R"({"batch": {"packing": "best_fit_decreasing"}})");
  run.batch.packing = Packing::kLevel;
  run.batch.microbatches = 3;
  config = apply_plan(run);
  EXPECT_EQ(config.batch.packing, Packing::kBestFitDecreasing) << "the plan's, not the run's";
  EXPECT_EQ(config.batch.microbatches, 0) << "packing finds their number";
}

TEST(ApplyPlan, RefusesToCorrectCostsThatNothingIsBalancedBy) {
  RunConfig config = planned("{}");
  config.batch.correct_costs = true;
  EXPECT_THROW((void)apply_plan(config), Error);
}

const ModelConfig kModel = small_model(/*kv_heads=*/4);

/// The plan of a run on `world` ranks, as the trainer asks for it.
Plan expand(const RunConfig& run, std::int64_t world) {
  const MeshShape mesh = resolve_mesh(run.parallel, world, kModel);
  const std::int64_t stages = run.parallel.vision_stages;
  return expand_plan(mesh,
                     {.schedule = run.parallel.schedule,
                      .microbatches = mesh.pp - stages,
                      .vision_stages = stages,
                      .virtual_stages = run.parallel.virtual_stages},
                     run, kModel);
}

RunConfig run_with(const std::vector<std::string>& overrides) {
  return parse_run_config("{model: {path: m}, data: {sources: [{name: a, path: b}]}}", "run.yaml",
                          overrides);
}

struct RoundTrip {
  std::vector<std::string> overrides;
  std::int64_t world;
  std::string ranks;  // of vision; empty: inline
};

TEST(ApplyPlan, GivesBackTheRunThatAPlanWasMadeOf) {
  const std::string separate = "parallel.vision.placement=separate";
  const std::vector<RoundTrip> runs{
      {{}, 2, ""},
      {{"parallel.pp=2", "parallel.tp=2", "model.freeze=[vision]"}, 8, ""},
      {{"model.recompute=[vision/2,backbone.mlp/3]"}, 2, ""},
      {{"parallel.pp=3", "parallel.vision_stages=1"}, 6, "0-1"},
      {{separate, "parallel.vision.dp_shard=3", "model.recompute=[vision.mlp]"}, 5, "2-4"},
      {{separate, "parallel.vision.tp=3", "parallel.pp=2", "parallel.schedule=zb_v"}, 5, "2-4"},
      {{separate, "parallel.vision.ranks=0,3", "parallel.vision.pp=2"}, 6, "0,3"},
      {{separate, "parallel.vision.ranks=0-1", "parallel.vision.dp_replicate=2"}, 3, "0-1"},
      {{separate, "parallel.vision.ranks=0-1", "parallel.vision.pp=2"}, 3, "0-1"},
      {{"parallel.vision.placement=colocated", "parallel.vision.tp=2", "parallel.pp=2"}, 4, "0-3"},
      {{separate, "parallel.vision.cp=2", "parallel.vision.ulysses=2", "parallel.tp=4",
        "parallel.offload=optimizer", "model.freeze=[projector]"},
       12,
       "8-11"}};
  for (const RoundTrip& each : runs) {
    RunConfig run = run_with(each.overrides);
    const Plan plan = expand(run, each.world);
    const ModulePlan& vision = *plan.find("vision");
    EXPECT_EQ(write_ranks(vision.ranks), each.ranks);
    EXPECT_NO_THROW(check_trains(plan, "plan", run, kModel));
    const Plan read = parse_plan(write_plan(plan), "again.json");
    EXPECT_EQ(read, plan);
    run = apply_plan(read, "again.json", run_with({}));
    EXPECT_EQ(count_ranks(run.parallel), each.world);
    EXPECT_EQ(parse_run_config(write_run_config(run), "again.yaml"), run);
    EXPECT_EQ(expand(run, each.world), plan) << write_run_config(run);
  }
}

TEST(ApplyPlan, LeavesARunWithoutPlanAlone) {
  const RunConfig config;
  EXPECT_EQ(apply_plan(config), config);
}

TEST(ApplyPlan, NamesEverythingThatCannotBeRun) {
  const auto refused = [](const std::string& patch) {
    return input_error_of([&] { (void)apply_plan(planned(patch)); });
  };
  EXPECT_THAT(refused(R"({"modules": {"backbone": {"train": "lora"}}})"),
              AllOf(HasSubstr("modules.backbone.train"), HasSubstr("full or frozen")));
  EXPECT_THAT(
      refused(R"({"modules": {"vision": {"ranks": "6-7"}, "backbone": {"ranks": "0-3"}}})"),
      HasSubstr("modules.backbone.ranks; found: no module has rank 4; expected: each of the "
                "ranks 0 to 7; fix: set modules.vision.ranks to 4-5"));
  EXPECT_THAT(refused(R"({"modules": {"projector": {"placement": "separate", "ranks": "6"}}})"),
              HasSubstr("modules.projector.placement; found: ranks of its own; expected: inline"));
  EXPECT_THAT(refused(R"({"modules": {"vision": {"mesh": {"dp_shard": 2, "ep": 2}}}})"),
              HasSubstr("modules.vision.mesh.ep; found: 2; expected: 1"));
  EXPECT_THAT(refused(R"({"modules": {"sonar": {"placement": "inline"}},
                          "edges": [{"from": "vision", "to": "projector"},
                                    {"from": "projector", "to": "backbone"},
                                    {"from": "sonar", "to": "backbone"}]})"),
              HasSubstr("modules.sonar.placement; found: a module of no known model; expected: "
                        "vision, audio, projector, audio_projector, backbone"));
  EXPECT_THAT(refused(R"({"modules": {"vision": {"placement": "sliced", "share_percent": 50},
                                      "backbone": {"placement": "sliced", "share_percent": 50}}})"),
              AllOf(HasSubstr("modules.vision.share_percent"),
                    HasSubstr("modules.vision.placement; found: sliced"),
                    HasSubstr("modules.backbone.placement; found: sliced; expected: separate")));
}

/// The small plan with encoders beside the run, the tower changed by a JSON merge patch.
RunConfig planned_flow(const std::string& tower) {
  nlohmann::json patch = nlohmann::json::parse(
      R"({"modules": {"vision": {"placement": "flow"}},
          "edges": [{"from": "vision", "to": "projector", "via": "pool"},
                    {"from": "projector", "to": "backbone"}]})");
  patch["modules"]["vision"].merge_patch(nlohmann::json::parse(tower));
  return planned(patch.dump());
}

TEST(ApplyPlan, TakesEncodersBesideTheRun) {
  const RunConfig config = apply_plan(planned_flow("{}"));
  const ModuleSection& vision =
      *std::ranges::find(config.parallel.modules, "vision", &ModuleSection::module);
  EXPECT_EQ(vision.placement, Placement::kFlow);
  EXPECT_EQ(vision.dp_replicate, 2) << "encoders, whichever degree the plan gives them";
  EXPECT_EQ(config.parallel.pp.count, 2) << "encoders are no stage";
  EXPECT_EQ(count_ranks(config.parallel), 4);
  const auto refused = [](const std::string& tower) {
    return input_error_of([&] { (void)apply_plan(planned_flow(tower)); });
  };
  EXPECT_EQ(refused(R"({"train": "full"})"), "accepted");
  EXPECT_THAT(refused(R"({"train": "lora"})"),
              AllOf(HasSubstr("modules.vision.train"), HasSubstr("full or frozen")));
  EXPECT_EQ(refused(R"({"mesh": {"dp_shard": 1, "tp": 2}})"), "accepted") << "two whole encoders";
}

/// What is said of the small plan with a colocated tower, changed by a JSON merge patch.
std::string refusal_of_colocated(const std::string& patch) {
  const std::string colocated =
      R"({"modules": {"vision": {"placement": "colocated", "ranks": "0-3", "train": "full",
                                 "mesh": {"dp_shard": 4}},
                      "backbone": {"ranks": "0-3", "schedule": "1f1b"}}})";
  nlohmann::json json = nlohmann::json::parse(colocated);
  json.merge_patch(nlohmann::json::parse(patch));
  return input_error_of([&] { (void)apply_plan(planned(json.dump())); });
}

TEST(ApplyPlan, TakesTurnsOfATowerThatTrainsBesideWholeBackwards) {
  EXPECT_EQ(refusal_of_colocated("{}"), "accepted");
  EXPECT_EQ(refusal_of_colocated(R"({"modules": {"vision": {"passes": 3}}})"), "accepted");
  EXPECT_EQ(refusal_of_colocated(R"({"modules": {"vision": {"train": "frozen"},
                                                 "backbone": {"schedule": "zb_h1"}}})"),
            "accepted");
  EXPECT_EQ(refusal_of_colocated(R"({"modules": {"backbone": {"schedule": "zb_h1"}}})"),
            "accepted");
  EXPECT_THAT(refusal_of_colocated(R"({"modules": {"vision": {"passes": 2, "turns": true,
                                                              "mesh": {"dp_replicate": 4, "dp_shard": 1}},
                                                   "backbone": {"schedule": "zb_h1"}}})"),
              HasSubstr("modules.backbone.schedule; found: zb_h1; expected: gpipe, 1f1b or "
                        "interleaved beside a vision that trains and takes turns; fix: set the "
                        "backbone's schedule to 1f1b, modules.vision.turns to false, or freeze "
                        "vision"));
  EXPECT_THAT(
      refusal_of_colocated(R"({"modules": {"vision": {"schedule": "zb_h1"}}})"),
      HasSubstr("modules.vision.schedule; found: zb_h1; expected: 1f1b: its passes have whole "
                "backwards; fix: set its schedule to 1f1b"));
}

TEST(CheckTrains, RefusesAPlanOfAnotherModel) {
  const auto refused = [](const std::string& patch) {
    const RunConfig run = planned(patch);
    return input_error_of(
        [&] { check_trains(read_plan(run.parallel.plan), "plan.json", run, kModel); });
  };
  EXPECT_EQ(refused("{}"), "accepted");
  EXPECT_THAT(
      refused(R"({"modules": {"projector": null},
                          "edges": [{"from": "vision", "to": "backbone"}]})"),
      AllOf(HasSubstr("plan lacks a module of the model; where: plan.json modules; found: "
                      "no module projector; expected: modules.projector; fix: add it"),
            HasSubstr("plan lacks an edge of the model; where: plan.json edges; found: "
                      "none from vision to projector; expected: each encoder to its "
                      "projector, and that to the backbone; fix: add an edge from vision to "
                      "projector"),
            HasSubstr("plan has an edge that the model lacks; where: plan.json edges; "
                      "found: vision to backbone; expected: each encoder to its projector, "
                      "and that to the backbone; fix: let it go to projector")));
  EXPECT_THAT(refused(R"({"modules": {"vision": {"mesh": {"dp_shard": 1, "tp": 4},
                                                 "ranks": "0-1,6-7"}}})"),
              HasSubstr("vision heads do not divide over the ranks"));
  EXPECT_THAT(refused(R"({"modules": {"projector": {"train": "frozen"},
                                      "backbone": {"train": "frozen"}}})"),
              HasSubstr("plan trains no module of the model"));
}

}  // namespace
}  // namespace tributary::config
