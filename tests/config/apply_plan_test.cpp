#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/plan/plan.h"
#include "config/run/run_config.h"
#include "core/error.h"

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

TEST(ApplyPlan, LeavesARunWithoutPlanAlone) {
  const RunConfig config;
  EXPECT_EQ(apply_plan(config), config);
}

TEST(ApplyPlan, NamesEverythingThatCannotBeRun) {
  const auto refused = [](const std::string& patch) -> std::string {
    try {
      (void)apply_plan(planned(patch));
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refused(R"({"modules": {"backbone": {"train": "lora"}}})"),
              AllOf(HasSubstr("modules.backbone.train"), HasSubstr("full or frozen")));
  EXPECT_THAT(refused(R"({"modules": {"vision": {"ranks": "6-7"}, "backbone": {"ranks": "0-3"}}})"),
              AllOf(HasSubstr("modules.vision.ranks"), HasSubstr("consecutive ranks from 0"),
                    HasSubstr("modules.backbone.ranks")));
  EXPECT_THAT(refused(R"({"modules": {"vision": {"mesh": {"dp_shard": 1, "tp": 2}}}})"),
              AllOf(HasSubstr("modules.vision.mesh"), HasSubstr("the degrees of the backbone")));
  EXPECT_THAT(refused(R"({"modules": {"vision": {"placement": "flow"}},
                          "edges": [{"from": "vision", "to": "projector", "via": "pool"},
                                    {"from": "projector", "to": "backbone"}]})"),
              HasSubstr("modules.vision.placement; found: flow"));
  EXPECT_THAT(
      refused(R"({"modules": {"vision": {"placement": "colocated", "ranks": "2-5",
                                                 "mesh": {"dp_shard": 4}}}})"),
      HasSubstr("modules.vision.placement; found: colocated; expected: inline or separate"));
}

}  // namespace
}  // namespace tributary::config
