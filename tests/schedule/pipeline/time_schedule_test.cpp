#include "schedule/pipeline/time_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "schedule/pipeline/in_flight.h"
#include "tests/core/input_error.h"
#include "tests/schedule/pipeline/random_pipeline.h"

namespace tributary::schedule {
namespace {

using config::PipelineOrder;

ScheduleTime time_of(const Schedule& schedule, const ScheduleCosts* costs = nullptr) {
  const PipelineMap map(schedule.pipeline);
  const DependencyGraph graph(schedule, map, {});
  return time_schedule(graph, map, costs != nullptr ? *costs : costs_of(map));
}

TEST(TimeSchedule, ReproducesTheClosedForms) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int rounds = 1; rounds <= 4; ++rounds) {
      const int microbatches = stages * rounds;
      const auto makespan = [&](PipelineOrder order, int chunks, PassTimes times) {
        Pipeline pipeline = make_pipeline(order, stages, microbatches, chunks);
        pipeline.modules[0].times.assign(std::size_t{1} * stages * chunks, times);
        return time_of(schedule_passes(pipeline)).makespan.count;
      };
      const PassTimes times{{5}, {7}, {3}};
      const std::int64_t work = 15 * microbatches;
      EXPECT_EQ(makespan(PipelineOrder::kGpipe, 1, times), work + 15 * (stages - 1));
      EXPECT_EQ(makespan(PipelineOrder::k1f1b, 1, times), work + 15 * (stages - 1));
      EXPECT_EQ(makespan(PipelineOrder::kInterleaved, 2, times), 2 * work + 15 * (stages - 1));
      EXPECT_EQ(makespan(PipelineOrder::kInterleaved, 4, times), 4 * work + 15 * (stages - 1));
      EXPECT_EQ(makespan(PipelineOrder::kZbH1, 1, times), work + (5 + 7 - 3) * (stages - 1));
    }
  }
}

TEST(TimeSchedule, EqualsTheRecordedCases) {
  Pipeline uneven = make_pipeline(PipelineOrder::k1f1b, 3, 10);
  uneven.modules[0].times = {{{2}, {2}, {2}}, {{5}, {5}, {5}}, {{3}, {3}, {3}}};
  EXPECT_EQ(time_of(schedule_passes(uneven)).makespan.count, 160);
  Pipeline branch{.modules = {{.name = "encoder"}, make_module(PipelineOrder::k1f1b, 2)},
                  .edges = {{.from = 0, .to = 1}},
                  .microbatches = 6};
  const std::vector<std::int64_t> encoder{4, 1, 6, 2, 3, 5};
  const std::vector<std::int64_t> backbone{2, 5, 3, 4, 1, 6};
  const ScheduleCosts costs{.action =
                                [&](int lane, const Action& action) {
                                  const std::int64_t forward =
                                      (lane == 0 ? encoder : backbone)[action.microbatch];
                                  const bool is_forward = action.op == Op::kForward;
                                  return Nanoseconds{is_forward ? forward : 2 * forward};
                                },
                            .hop = {}};
  EXPECT_EQ(time_of(schedule_passes(branch), &costs).makespan.count, 110);
}

TEST(TimeSchedule, SplitsEveryLaneIntoBusyAndIdle) {
  const ScheduleTime time = time_of(schedule_passes(make_pipeline(PipelineOrder::k1f1b, 4, 8)));
  EXPECT_EQ(time.makespan.count, 33);
  EXPECT_DOUBLE_EQ(time.bubble_share(), 9.0 / 33.0);
  for (int stage = 0; stage < 4; ++stage) {
    const LaneTime& lane = time.lanes[stage];
    EXPECT_EQ(lane.busy.count, 24);
    EXPECT_EQ((lane.busy + lane.idle()), time.makespan);
  }
  // The first stage waits for the first gradient, and once its last forward is done.
  EXPECT_EQ(time.lanes[0].warm_up.count, 6);
  EXPECT_EQ(time.lanes[0].steady.count, 0);
  EXPECT_EQ(time.lanes[0].drain.count, 3);
  // The last stage waits for the first forward to come down, and for the last backward to go up.
  EXPECT_EQ(time.lanes[3].warm_up.count, 3);
  EXPECT_EQ(time.lanes[3].steady.count, 0);
  EXPECT_EQ(time.lanes[3].drain.count, 6);
}

TEST(TimeSchedule, CountsAWaitRightAfterTheLastForwardAsDrain) {
  Pipeline pipeline = make_pipeline(PipelineOrder::k1f1b, 2, 3);
  pipeline.modules[0].times = {{{1}, {1}, {1}}, {{10}, {10}, {10}}};
  const ScheduleTime time = time_of(schedule_passes(pipeline));
  EXPECT_EQ(time.makespan.count, 93);
  EXPECT_EQ(time.lanes[0].warm_up.count, 29);
  EXPECT_EQ(time.lanes[0].steady.count, 0);
  EXPECT_EQ(time.lanes[0].drain.count, 27 + 28);
}

TEST(TimeSchedule, CriticalPathExplainsTheMakespan) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "path");
    const Schedule schedule = schedule_passes(draw_pipeline(random));
    const PipelineMap map(schedule.pipeline);
    const DependencyGraph graph(schedule, map, {});
    const ScheduleTime time = time_schedule(graph, map, costs_of(map));
    ASSERT_FALSE(time.critical_path.empty());
    EXPECT_EQ(time.start[time.critical_path.front()].count, 0) << "seed " << seed;
    EXPECT_EQ(time.end[time.critical_path.back()], time.makespan);
    for (std::size_t i = 1; i < time.critical_path.size(); ++i) {
      const int from = time.critical_path[i - 1];
      const int to = time.critical_path[i];
      const Nanoseconds wait = time.start[to] - time.end[from];
      const bool same_lane = graph.lane_of(from) == graph.lane_of(to);
      ASSERT_TRUE(wait.count == 0 || (!same_lane && wait == schedule.pipeline.hop));
    }
  }
}

/// When each lane starts its first action of the op and microbatch.
std::vector<std::int64_t> starts_of(const Schedule& schedule, const Buffers& buffers, Op op,
                                    int microbatch, const ScheduleCosts& costs) {
  const PipelineMap map(schedule.pipeline);
  const DependencyGraph graph(schedule, map, buffers);
  const ScheduleTime time = time_schedule(graph, map, costs);
  std::vector<std::int64_t> starts(schedule.lists.size(), -1);
  for (int node = graph.actions() - 1; node >= 0; --node)
    if (graph.action(node).op == op && graph.action(node).microbatch == microbatch)
      starts[graph.lane_of(node)] = time.start[node].count;
  return starts;
}

TEST(TimeSchedule, AMessageTravelsWhenBothSidesAreReady) {
  Pipeline pipeline = make_pipeline(PipelineOrder::kGpipe, 2, 2);
  pipeline.hop = {10};
  const Schedule passes = schedule_passes(pipeline);
  const PipelineMap map(passes.pipeline);
  const auto second_forward = [&](const Buffers& buffers) {
    return starts_of(lower_schedule(passes, buffers), buffers, Op::kForward, 1, costs_of(map))[1];
  };
  // Both travel from 1 and 2 on; with one buffer the second waits until the first is used, at 12.
  EXPECT_EQ(second_forward({.receive = 2, .send = 2}), 12);
  EXPECT_EQ(second_forward({.receive = 1, .send = 2}), 22);
}

TEST(TimeSchedule, ReplicasMeetForReductionsAndAllLanesForTheStep) {
  Pipeline pipeline = make_pipeline(PipelineOrder::k1f1b, 2, 2);
  pipeline.modules[0].replicas = 2;
  const Schedule schedule = lower_schedule(schedule_passes(pipeline), {});
  // The second replica takes ten times as long for its passes; a reduction takes 7 ns.
  const ScheduleCosts costs{.action =
                                [](int lane, const Action& action) {
                                  if (action.op == Op::kReduceGradients) return Nanoseconds{7};
                                  return Nanoseconds{is_pass(action.op) ? (lane < 2 ? 1 : 10) : 0};
                                },
                            .hop = {}};
  // A stage ends after 2 microbatches of 2 passes and those of its neighbour: 5 or 6 passes.
  EXPECT_THAT(starts_of(schedule, {}, Op::kReduceGradients, 0, costs),
              testing::ElementsAre(60, 50, 60, 50));
  EXPECT_THAT(starts_of(schedule, {}, Op::kOptimizerStep, 0, costs),
              testing::ElementsAre(67, 67, 67, 67));
}

TEST(TimeSchedule, RefusesABlockedSchedule) {
  Schedule schedule = schedule_passes(make_pipeline(PipelineOrder::k1f1b, 2, 2));
  schedule.lists[0].pop_back();
  std::swap(schedule.lists[1][0], schedule.lists[1][1]);
  EXPECT_THAT([&] { (void)time_of(schedule); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("blocked schedule cannot be timed; found: 2 blocked lanes")));
}

TEST(SchedulePasses, EncodersRunAheadByTheDepthOfTheBackbone) {
  Pipeline pipeline{.modules = {{.name = "vision", .stages = 2, .replicas = 2},
                                make_module(PipelineOrder::k1f1b, 3)},
                    .edges = {{.from = 0, .to = 1}},
                    .microbatches = 8};
  const Schedule schedule = schedule_passes(pipeline);
  ASSERT_EQ(schedule.lists.size(), 7U);
  // Forwards before the first backward: encoder stages + backbone stages - stage.
  for (const int lane : {0, 1, 2, 3}) {
    const ActionList& list = schedule.lists[lane];
    const auto first = std::find_if(
        list.begin(), list.end(), [](const Action& action) { return action.op == Op::kBackward; });
    EXPECT_EQ(first - list.begin(), 2 + 3 - lane % 2);
    EXPECT_EQ(schedule.in_flight[lane], 2 + 3 - lane % 2);
  }
  EXPECT_EQ(schedule.lists[0], schedule.lists[2]);  // replicas run the same list
}

TEST(SchedulePasses, LeavesOutWhatFrozenLayersDoNotNeed) {
  Pipeline pipeline{
      .modules = {{.name = "vision", .trains = {false}}, make_module(PipelineOrder::kZbH1, 3)},
      .edges = {{.from = 0, .to = 1}},
      .microbatches = 2};
  pipeline.modules[1].trains = {false, true, false};
  const Schedule schedule = schedule_passes(pipeline);
  EXPECT_EQ(to_text(schedule.lists),
            "F0.0 F0.1\nF0.0 F0.1\nF0.0 F0.1 B0.0 B0.1 W0.0 W0.1\nF0.0 B0.0 F0.1 B0.1\n");
  const PipelineMap map(schedule.pipeline);
  EXPECT_EQ(peak_in_flight(map, 0, schedule.lists[0]), 0);
  EXPECT_EQ(peak_in_flight(map, 2, schedule.lists[2]), 2);
  EXPECT_EQ(peak_in_flight(map, 3, schedule.lists[3]), 1);
  const Schedule lowered = lower_schedule(schedule, {});
  EXPECT_EQ(to_text(lowered.lists),
            "F0.0 XS0.0 F0.1 XS0.1\n"
            "XR0.0 XR0.1 F0.0 SF0.0 F0.1 SF0.1\n"
            "RF0.0 RF0.1 RB0.0 RB0.1 F0.0 SF0.0 F0.1 SF0.1 B0.0 B0.1 W0.0 W0.1 GR0.0 OPT0.0\n"
            "RF0.0 RF0.1 F0.0 B0.0 SB0.0 F0.1 B0.1 SB0.1\n");
}

TEST(PeakInFlight, CountsThreeWeights) {
  const Schedule schedule = schedule_passes(make_pipeline(PipelineOrder::kZbH1, 4, 8));
  const PipelineMap map(schedule.pipeline);
  const std::vector<KeptAfter> recomputed(
      4, {.forward = 1, .backward_input = 9, .backward_weight = -10});
  // The last stage keeps three weight gradients back, and what they need is the most.
  EXPECT_EQ(peak_in_flight(map, 3, schedule.lists[3]), 4);
  EXPECT_EQ(peak_in_flight(map, 3, schedule.lists[3], recomputed), 40);
  EXPECT_EQ(peak_in_flight(map, 0, schedule.lists[0], recomputed), 13);
  const std::vector<KeptAfter> lost(4, {.forward = 1, .backward_input = 0, .backward_weight = 0});
  EXPECT_THAT([&] { (void)peak_in_flight(map, 0, schedule.lists[0], lost); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("found: 1, 0, 0")));
  EXPECT_THAT([&] { (void)peak_in_flight(map, 0, schedule.lists[0], std::span(lost).first(3)); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("found: 3; expected: 4")));
}

TEST(PipelineMap, RefusesWhatIsNoPipeline) {
  const auto refusal = [](const Pipeline& pipeline) {
    return input_error_of([&] { (void)schedule_passes(pipeline); });
  };
  using testing::HasSubstr;
  const PipelineModule good = make_module(PipelineOrder::k1f1b, 2);
  EXPECT_THAT(refusal({}), HasSubstr("pipeline is empty; found: 0 modules, 1 microbatches"));
  EXPECT_THAT(refusal({.modules = {{.name = "v", .replicas = 0}}, .edges = {}}),
              HasSubstr("where: v; found: 1 stages, 1 chunks, 0 replicas"));
  EXPECT_THAT(refusal({.modules = {{.name = "v", .stages = 2, .trains = {true}}}, .edges = {}}),
              HasSubstr("trains is not given for each virtual stage; where: v; found: 1"));
  EXPECT_THAT(refusal({.modules = {good}, .edges = {{0, 1}}}),
              HasSubstr("edge leads nowhere; found: 0 to 1"));
  EXPECT_THAT(refusal({.modules = {good, good}, .edges = {{0, 1}, {1, 0}}}),
              HasSubstr("edges go round in a circle; found: 2 modules"));
  EXPECT_THAT(refusal({.modules = {good, good}, .edges = {}}),
              HasSubstr("module feeds no other; where: backbone"));
  EXPECT_THAT(refusal({.modules = {{.name = "v", .order = PipelineOrder::kGpipe}, good},
                       .edges = {{0, 1}}}),
              HasSubstr("cannot have this order; where: v; found: gpipe"));
  EXPECT_THAT(refusal({.modules = {{.name = "v", .chunks = 2}, good}, .edges = {{0, 1}}}),
              HasSubstr("is cut twice; where: v; found: 2 chunks"));
  EXPECT_THAT(refusal({.modules = {{.name = "v", .order = PipelineOrder::kZbV}}, .edges = {}}),
              HasSubstr("order cannot be made; where: v; found: zb_v takes 2 virtual stages"));
}

}  // namespace
}  // namespace tributary::schedule
