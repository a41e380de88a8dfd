#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text.h"
#include "cost/calibrate/calibrate.h"
#include "cost/calibrate/training_row.h"
#include "schedule/pipeline/time_schedule.h"

namespace tributary::cost {
namespace {

TrainingRow make_row() {
  return {.devices = 8,
          .global_batch = 64,
          .micro_batch = 2,
          .width = 2048,
          .heads = 16,
          .layers = 24,
          .sequence = 1024,
          .tp = 2,
          .dp = 2,
          .pp = 2};
}

TEST(StepSeconds, IsTheSumOfItsParts) {
  const StepParts parts = step_parts(data_sheet_cluster(), make_row());
  EXPECT_GT(parts.stages, 0);
  EXPECT_GT(parts.bubble, 0);
  EXPECT_GT(parts.messages, 0);
  EXPECT_GT(parts.gradients, 0);
  EXPECT_GT(parts.optimizer, 0);
  EXPECT_EQ(parts.total(), step_seconds(data_sheet_cluster(), make_row()));
}

TEST(StepSeconds, HasNoBubbleAndNoMessagesWithoutAPipeline) {
  TrainingRow row = make_row();
  row.pp = 1;
  row.devices = 4;
  row.dp = 2;
  const StepParts parts = step_parts(data_sheet_cluster(), row);
  EXPECT_EQ(parts.bubble, 0);
  EXPECT_EQ(parts.messages, 0);
  row.dp = 1;
  row.devices = 2;
  EXPECT_EQ(step_parts(data_sheet_cluster(), row).gradients, 0);
}

TEST(StepSeconds, AgreesWithTheExactScheduleOf1F1B) {
  // The stages' times as the closed form has them, run through the action lists that are executed.
  config::Cluster cluster = data_sheet_cluster();
  cluster.exposed_message_share = 0;
  for (const std::int64_t pp : {2, 4, 8}) {
    for (const std::int64_t microbatches : {8, 32}) {
      TrainingRow row = make_row();
      row.tp = row.dp = 1;
      row.devices = row.pp = pp;
      row.micro_batch = 1;
      row.global_batch = microbatches;
      const StepParts parts = step_parts(cluster, row);
      TrainingRow alone = row;  // one stage of the middle: layers without embedding and head
      alone.devices = alone.pp = 1;
      const double slowest = parts.stages / static_cast<double>(microbatches);
      alone.layers = row.layers;
      const double one = step_parts(cluster, alone).stages / static_cast<double>(microbatches);
      alone.layers = row.layers * 2;
      const double two = step_parts(cluster, alone).stages / static_cast<double>(microbatches);
      const double layer = (two - one) / static_cast<double>(row.layers);
      const double middle = layer * static_cast<double>(row.layers / pp);
      const double first =
          one - layer * static_cast<double>(row.layers) - (slowest - middle) + middle;

      schedule::Pipeline pipeline;
      pipeline.microbatches = static_cast<int>(microbatches);
      schedule::PipelineModule module{.name = "backbone", .stages = static_cast<int>(pp)};
      for (std::int64_t stage = 0; stage < pp; ++stage) {
        const double time = stage == 0 ? first : stage == pp - 1 ? slowest : middle;
        const auto third = static_cast<std::int64_t>(1e9 * time / 3);
        module.times.push_back(
            {.forward = {third}, .backward_input = {third}, .backward_weight = {third}});
      }
      pipeline.modules.push_back(module);
      const schedule::Schedule listed = schedule::schedule_passes(pipeline);
      const schedule::PipelineMap map(listed.pipeline);
      const schedule::DependencyGraph graph(listed, map, {});
      const double exact =
          1e-9 * static_cast<double>(schedule::makespan_of(graph, costs_of(map)).count);
      EXPECT_NEAR((parts.stages + parts.bubble) / exact, 1, 0.005)
          << pp << " stages, " << microbatches << " microbatches";
    }
  }
}

TEST(StepSeconds, GrowsWithTheWorkAndStaysFinite) {
  const config::Cluster cluster = data_sheet_cluster();
  for (const std::int64_t width : {256, 4096, 65536}) {
    for (const std::int64_t tp : {1, 8, 16}) {
      for (const std::int64_t dp : {1, 64, 1024}) {
        TrainingRow row = make_row();
        row.width = width;
        row.heads = 64;
        row.tp = tp;
        row.dp = dp;
        row.pp = 4;
        row.devices = tp * dp * 4;
        row.global_batch = 32 * dp;
        const double base = step_seconds(cluster, row);
        EXPECT_TRUE(std::isfinite(base));
        EXPECT_GT(base, 0);
        TrainingRow more = row;
        more.global_batch *= 2;
        EXPECT_GT(step_seconds(cluster, more), base);
        more = row;
        more.layers *= 2;
        EXPECT_GT(step_seconds(cluster, more), base);
        more = row;
        more.sequence *= 2;
        EXPECT_GT(step_seconds(cluster, more), base);
        more = row;
        more.recompute = config::RecomputePlan::kFull;
        TrainingRow less = row;
        less.recompute = config::RecomputePlan::kNone;
        EXPECT_GT(step_seconds(cluster, more), step_seconds(cluster, less));
      }
    }
  }
}

TEST(RecomputeOf, FollowsTheModelAndNotTheSplit) {
  TrainingRow row = make_row();
  EXPECT_EQ(recompute_of(data_sheet_cluster(), row), config::RecomputePlan::kNone);
  row.width = 8192;
  row.heads = 64;
  row.layers = 48;
  EXPECT_EQ(recompute_of(data_sheet_cluster(), row), config::RecomputePlan::kFull);
  row.recompute = config::RecomputePlan::kSelective;
  EXPECT_EQ(recompute_of(data_sheet_cluster(), row), config::RecomputePlan::kSelective);
}

TEST(StepSeconds, NamesARowThatTheClusterCannotHold) {
  config::Cluster cluster = data_sheet_cluster();
  cluster.devices = 4;
  EXPECT_THAT([&] { (void)step_seconds(cluster, make_row()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("8 GPUs")));
}

TEST(StepSeconds, PredictsTheSelenePointsWithConstantsOfOtherMachines) {
  // Fitted to other models on other machines (the cluster file says which); none of these eight.
  const config::Cluster cluster =
      config::read_cluster(str(TRIB_SOURCE_DIR, "/configs/clusters/a100_8.yaml"));
  const TrainingTable table =
      read_training_rows(str(TRIB_SOURCE_DIR, "/configs/clusters/rows/selene.csv"));
  std::vector<double> predicted;
  for (const TrainingRow& row : table.rows) predicted.push_back(step_seconds(cluster, row));
  const PredictionError error = judge_predictions(table.rows, predicted);
  EXPECT_LE(error.mean, 0.0365);
  EXPECT_LE(error.highest, 0.0887);
}

}  // namespace
}  // namespace tributary::cost
