#include "schedule/pipeline/plan_pipeline.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/run/run_config.h"
#include "core/error.h"
#include "schedule/order/all_orders.h"
#include "schedule/pipeline/check_schedule.h"

namespace tributary::schedule {
namespace {

using config::Placement;
using config::Plan;
using testing::ElementsAre;

/// Vision on ranks 0 to 3, the backbone on two stages of 4 to 15.
Plan make_plan() {
  return config::parse_plan(R"({"format": "tributary.plan/1",
    "modules": {
      "vision": {"ranks": "0-3", "mesh": {"dp_shard": 4}, "train": "frozen"},
      "projector": {"placement": "inline"},
      "backbone": {"ranks": "4-15", "mesh": {"pp": 2, "dp_shard": 3, "tp": 2},
                   "stages": [["embed", "0-14"], ["15-27", "head"]], "schedule": "zb_h1",
                   "train": "frozen"}},
    "edges": [{"from": "vision", "to": "projector"}, {"from": "projector", "to": "backbone"}],
    "batch": {"global_samples": 32, "microbatches": 2, "capacity_tokens": 8192}})",
                            "plan.json");
}

TEST(PipelineOfPlan, SaysWhichModuleIsTheBackbone) {
  Plan plan = make_plan();
  const auto found = [&plan] {
    const Pipeline pipeline = pipeline_of(plan);
    return pipeline.modules[backbone_of(pipeline)].name;
  };
  EXPECT_EQ(found(), "backbone");
  std::reverse(plan.modules.begin(), plan.modules.end());
  EXPECT_EQ(found(), "backbone");
}

TEST(PipelineOfPlan, GivesEveryRankItsLane) {
  const Plan plan = make_plan();
  const Schedule schedule = schedule_passes(pipeline_of(plan));
  const PipelineMap map(schedule.pipeline);
  EXPECT_EQ(map.lanes(), 10);
  EXPECT_THAT(lanes_of_ranks(plan, map),
              ElementsAre(ElementsAre(6), ElementsAre(7), ElementsAre(8), ElementsAre(9),
                          ElementsAre(0), ElementsAre(0), ElementsAre(2), ElementsAre(2),
                          ElementsAre(4), ElementsAre(4), ElementsAre(1), ElementsAre(1),
                          ElementsAre(3), ElementsAre(3), ElementsAre(5), ElementsAre(5)));
  const Schedule lowered = lower_schedule(schedule, {});
  EXPECT_NO_THROW(require_valid(lowered, {}));
  // The inline projector trains, so the first stage has weight gradients and the second has none.
  EXPECT_EQ(to_text(std::span(schedule.lists).first(2)),
            "F0.0 F0.1 B0.0 W0.0 B0.1 W0.1\nF0.0 B0.0 F0.1 B0.1\n");
  EXPECT_EQ(to_text(std::span(schedule.lists).subspan(6, 1)), "F0.0 F0.1\n");
}

TEST(PipelineOfPlan, KnowsEveryOrderByTheSameName) {
  for (const OrderTraits& traits : all_orders()) {
    config::RunConfig run;
    config::ModelConfig model;
    model.backbone.layers = 12;
    const config::PipelineSection section{
        .schedule = traits.order, .microbatches = 6, .virtual_stages = traits.chunks == 1 ? 1 : 2};
    const Plan plan = config::expand_plan({.pp = 3, .dp_shard = 2}, section, run, model);
    EXPECT_THAT(config::write_plan(plan),
                testing::HasSubstr(str("\"schedule\": \"", traits.name, "\"")));
    const Schedule schedule = schedule_passes(pipeline_of(plan));
    EXPECT_EQ(schedule.lists.size(), 6U);
    EXPECT_NO_THROW(require_valid(lower_schedule(schedule, {}), {}));
  }
}

TEST(PipelineOfPlan, RefusesWhatHasNoListsYet) {
  Plan plan = make_plan();
  plan.modules[2].placement = Placement::kSliced;
  EXPECT_THAT(
      [&] { (void)pipeline_of(plan); },
      testing::ThrowsMessage<Error>(testing::HasSubstr(
          "placement has no action lists yet; where: modules.vision.placement; found: sliced")));
  plan = make_plan();
  plan.edges[0] = {.from = "backbone", .to = "vision"};
  EXPECT_THAT([&] { (void)pipeline_of(plan); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "module behind the backbone has no action lists yet; where: modules.vision")));
}

}  // namespace
}  // namespace tributary::schedule
