#include <gtest/gtest.h>

#include "simulate/engine/lane_account.h"
#include "simulate/program/step_bound.h"
#include "tests/simulate/engine/step_case.h"

namespace tributary::simulate {
namespace {

/// Passes and steps of lanes on the same ranks that run at the same time.
int count_overlaps(const StepProgram& program, const StepTimes& times) {
  const auto computes = [&](int action) {
    const StepKind kind = program.kind(action);
    return (kind == StepKind::kPass || kind == StepKind::kOptimize) &&
           times.actions[action].end > times.actions[action].start;
  };
  int overlaps = 0;
  for (int lane = 0; lane < program.lanes(); ++lane)
    for (const int beside : program.map().lanes_beside(lane))
      for (int mine = program.first_action(lane); mine < program.first_action(lane + 1); ++mine)
        for (int other = program.first_action(beside);
             computes(mine) && other < program.first_action(beside + 1); ++other)
          if (computes(other) && times.actions[mine].start < times.actions[other].end &&
              times.actions[other].start < times.actions[mine].end)
            ++overlaps;
  return overlaps;
}

/// Reductions of two lanes on the same ranks that run at the same time.
int count_reductions_at_once(const StepProgram& program, const StepTimes& times) {
  int found = 0;
  for (const StepMeeting& one : program.reductions()) {
    for (const StepMeeting& other : program.reductions()) {
      const ActionTimes& a = times.actions[one.members.front()];
      const ActionTimes& b = times.actions[other.members.front()];
      const std::vector<int> beside =
          program.map().lanes_beside(program.lane_of(one.members.front()));
      const bool share = std::any_of(other.members.begin(), other.members.end(), [&](int member) {
        return std::find(beside.begin(), beside.end(), program.lane_of(member)) != beside.end();
      });
      if (share && a.end > a.start && b.end > b.start && a.start < b.end && b.start < a.end)
        ++found;
    }
  }
  return found;
}

/// With reductions and steps; every other one on shared links, every other one with passes that
/// slow down beside reductions.
StepCase draw_busy_case(std::uint64_t seed) {
  StepCase of = draw_colocated_case(seed);
  RandomStream random(seed, "busy");
  draw_meetings(of, random);
  if (random.below(2) == 0) share_links(of, random);
  if (random.below(2) == 0) of.network.overlap_slowdown = 1.5;
  return of;
}

TEST(ColocatedStep, NeverComputesTwiceOnARankWhateverIsShared) {
  int steps_of_two = 0;
  int steps_of_more = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const StepCase of = draw_busy_case(seed);
    const StepTimes times = time_step(of.program, of.load, of.network);
    ASSERT_TRUE(times.blocked.empty()) << describe_blocked(of.program, times);
    EXPECT_EQ(count_overlaps(of.program, times), 0) << "seed " << seed;
    EXPECT_EQ(count_reductions_at_once(of.program, times), 0) << "seed " << seed;
    if (of.program.shared_steps().size() == 2) ++steps_of_two;
    if (of.program.shared_steps().size() > 2) ++steps_of_more;
  }
  EXPECT_GT(steps_of_two, 100);
  EXPECT_GT(steps_of_more, 30);
}

TEST(ColocatedStep, EqualsTheEventsToTheBit) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const StepCase of = draw_busy_case(seed);
    EXPECT_TRUE(are_equal(time_step(of.program, of.load, of.network),
                          run_events(of.program, of.load, of.network)))
        << "seed " << seed;
  }
}

TEST(ColocatedStep, IsSlowedByReductionsOfTheOtherModule) {
  // Backwards of the encoder run beside the reduction of the backbone.
  schedule::Pipeline pipeline{.modules = {{.name = "beside", .passes = 1}, {.name = "backbone"}},
                              .edges = {{.from = 0, .to = 1}}};
  for (schedule::PipelineModule& module : pipeline.modules) module.times = {{{100}, {100}, {100}}};
  StepCase of = make_case(pipeline);
  for (int action = 0; action < of.program.actions(); ++action)
    if (of.program.kind(action) == StepKind::kReduce) of.load.duration[action] = {50};
  EXPECT_EQ(time_step(of.program, of.load, of.network).makespan.count, 600 + 50);
  of.network.overlap_slowdown = 2;
  // 50 ns of the reduction hold 25 ns of work.
  EXPECT_EQ(time_step(of.program, of.load, of.network).makespan.count, 600 + 25 + 50);
}

TEST(ColocatedStep, IsTheSumOfItsPartsOnOneStage) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "sum");
    const auto replicas = static_cast<int>(random.between(1, 4));
    const auto microbatches = static_cast<int>(random.between(1, 5));
    schedule::Pipeline pipeline{.modules = {{.name = "backbone", .replicas = replicas},
                                            {.name = "vision", .replicas = replicas, .passes = 1}},
                                .edges = {{.from = 1, .to = 0}},
                                .microbatches = microbatches};
    StepCase of = make_case(pipeline);
    vary_passes(of, random);
    draw_meetings(of, random);
    for (Route& route : of.network.routes) route.latency = {7};
    // Slowest forward of the encoder, slowest backbone, slowest backward.
    std::int64_t expected = 2 * 7;
    std::int64_t reductions[2] = {0, 0};
    std::int64_t steps[2] = {0, 0};
    for (const int module : {0, 1}) {
      std::int64_t slowest[2] = {0, 0};
      for (int replica = 0; replica < replicas; ++replica) {
        const int lane = of.program.map().lane_of({module, replica, 0});
        std::int64_t sums[2] = {0, 0};
        for (int action = of.program.first_action(lane); action < of.program.first_action(lane + 1);
             ++action) {
          const std::int64_t duration = of.load.duration[action].count;
          if (of.program.kind(action) == StepKind::kReduce)
            reductions[module] = std::max(reductions[module], duration);
          if (of.program.kind(action) == StepKind::kOptimize)
            steps[module] = std::max(steps[module], duration);
          if (of.program.kind(action) == StepKind::kPass)
            sums[module == 1 && of.program.action(action).op != schedule::Op::kForward] += duration;
        }
        for (const int part : {0, 1}) slowest[part] = std::max(slowest[part], sums[part]);
      }
      if (module == 0) {
        expected += slowest[0];
        reductions[0] -= 7;  // it begins when the last gradients go on their way
      } else {
        expected += slowest[0];
        reductions[0] = std::max(std::int64_t{0}, reductions[0] - slowest[1]);
        expected += slowest[1];
      }
    }
    expected += reductions[0] + reductions[1] + steps[0] + steps[1];
    EXPECT_EQ(time_step(of.program, of.load, of.network).makespan.count, expected)
        << "seed " << seed;
    EXPECT_EQ(bound_step(of.program, of.load, of.network).value().count, expected)
        << "seed " << seed;
  }
}

TEST(ColocatedStep, AccountsForEveryNanosecondOfARankOnce) {
  std::int64_t other = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    StepCase of = draw_colocated_case(seed);
    RandomStream random(seed, "account");
    draw_meetings(of, random);
    const StepTimes times = time_step(of.program, of.load, of.network);
    const std::vector<LaneAccount> accounts = account_lanes(of.program, of.load, times);
    for (int lane = 0; lane < of.program.lanes(); ++lane) {
      EXPECT_EQ(accounts[lane].total(), times.makespan);
      const Nanoseconds busy = accounts[lane].total(TimeClass::kBusy);
      for (const int beside : of.program.map().lanes_beside(lane)) {
        // What the other lane works is neither work nor communication of this one.
        const Nanoseconds other_busy = accounts[beside].total(TimeClass::kBusy);
        EXPECT_LE(busy + accounts[lane].total(TimeClass::kCommunication) + other_busy,
                  times.makespan)
            << "seed " << seed;
        EXPECT_GE(accounts[lane][TimeUse::kOtherModule], other_busy);
      }
      other += accounts[lane][TimeUse::kOtherModule].count;
    }
  }
  EXPECT_GT(other, 0);
}

TEST(ColocatedStep, BoundsAreBelowAndMeetItOnOneStage) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    StepCase of = draw_colocated_case(seed);
    RandomStream random(seed, "bounds");
    if (random.below(2) == 0) draw_meetings(of, random);
    if (random.below(2) == 0) share_links(of, random);
    EXPECT_LE(bound_step(of.program, of.load, of.network).value(),
              time_step(of.program, of.load, of.network).makespan)
        << "seed " << seed;
  }
  const schedule::Pipeline pipeline{
      .modules = {{.name = "backbone", .replicas = 2}, {.name = "vision", .passes = 1}},
      .edges = {{.from = 1, .to = 0}},
      .microbatches = 4,
      .hop = {5}};
  const StepCase of = make_case(pipeline);
  EXPECT_EQ(bound_step(of.program, of.load, of.network).work,
            time_step(of.program, of.load, of.network).makespan);
}

TEST(ColocatedStep, CriticalPathFillsTheStepWithoutAGap) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    StepCase of = draw_colocated_case(seed);
    RandomStream random(seed, "path");
    draw_meetings(of, random);
    if (random.below(2) == 0) share_links(of, random);
    EXPECT_TRUE(path_fills_step(of)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tributary::simulate
