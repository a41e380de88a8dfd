#include <gtest/gtest.h>

#include "tests/simulate/engine/step_case.h"

namespace tributary::simulate {
namespace {

/// So many replicas that compute one pass each way and wait for nobody.
StepCase replicas_at_work(int replicas, std::int64_t forward, std::int64_t backward) {
  schedule::Pipeline pipeline;
  pipeline.modules.push_back({.name = "backbone", .stages = 1, .replicas = replicas});
  pipeline.microbatches = 1;
  StepCase of = make_case(pipeline);
  for (int action = 0; action < of.program.actions(); ++action) {
    if (of.program.kind(action) != StepKind::kPass) continue;
    const bool is_forward = of.program.action(action).op == schedule::Op::kForward;
    of.load.duration[action] = {is_forward ? forward : backward};
  }
  return of;
}

void share_cores(StepCase& of, double cores) {
  const auto lanes = static_cast<std::size_t>(of.program.lanes());
  of.network.cores = cores;
  of.network.machine.assign(lanes, 0);
  of.network.threads.assign(lanes, 1);
}

Nanoseconds step_time(const StepCase& of) {
  return time_step(of.program, of.load, of.network).makespan;
}

TEST(SharedCores, MoreLanesThanCoresTakeTheirWorkOverTheCores) {
  for (int replicas = 1; replicas <= 8; ++replicas) {
    for (int cores = 1; cores <= 4; ++cores) {
      StepCase of = replicas_at_work(replicas, 1200, 2400);
      share_cores(of, cores);
      const std::int64_t expected = 3600 * std::max(replicas, cores) / cores;
      EXPECT_NEAR(static_cast<double>(step_time(of).count), static_cast<double>(expected), 4)
          << replicas << " lanes, " << cores << " cores";
    }
  }
}

TEST(SharedCores, CollectivesWithinAPassAreNotSlowedAndLeaveNoCoreToOthers) {
  StepCase of = replicas_at_work(4, 1000, 1000);
  of.load.exposed = of.load.duration;  // nothing but collectives
  share_cores(of, 1);
  EXPECT_EQ(step_time(of), Nanoseconds{2000});
  for (Nanoseconds& exposed : of.load.exposed) exposed.count /= 2;
  // Four lanes on one core: their computing takes four times as long.
  EXPECT_NEAR(static_cast<double>(step_time(of).count), 2 * (500 + 4 * 500), 2);
}

/// How long jobs take that begin together and get the same part of the cores each, of which each
/// wants `demand`: the shortest ends first, and those that are left go on faster.
///
/// shape: work ascending
double time_of_crowd(const std::vector<std::int64_t>& work, double cores, double demand,
                     double computes) {
  double time = 0;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const double wanted = demand * static_cast<double>(work.size() - i);
    const double slower = computes * std::max(1.0, wanted / cores) + 1 - computes;
    time += slower * static_cast<double>(work[i] - (i > 0 ? work[i - 1] : 0));
  }
  return time;
}

/// Work of its own for each replica; returns it in ascending order.
std::vector<std::int64_t> draw_work(StepCase& of, StepKind kind, RandomStream& random) {
  std::vector<std::int64_t> work(static_cast<std::size_t>(of.program.lanes()));
  for (int action = 0; action < of.program.actions(); ++action) {
    if (of.program.kind(action) != kind) continue;
    of.load.duration[action] = {random.between(1, 100'000)};
    work[of.program.lane_of(action)] += of.load.duration[action].count;
  }
  std::sort(work.begin(), work.end());
  return work;
}

TEST(SharedCores, ACrowdOfUnequalLanesEndsAsItsCoresGetFree) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "crowd");
    const auto replicas = static_cast<int>(random.between(1, 9));
    StepCase of = replicas_at_work(replicas, 0, 0);
    const std::vector<std::int64_t> passes = draw_work(of, StepKind::kPass, random);
    const std::vector<std::int64_t> steps = draw_work(of, StepKind::kOptimize, random);
    const auto cores = static_cast<double>(random.between(1, 6));
    const auto threads = static_cast<double>(random.between(1, 3));
    share_cores(of, cores);
    of.network.threads.assign(static_cast<std::size_t>(replicas), threads);
    // Half of the time a part of each pass and step is communication, which is not slowed.
    const double computes = random.below(2) == 0 ? 1 : 0.75;
    for (Nanoseconds& each : of.load.duration) each.count *= 4;
    for (const Nanoseconds each : of.load.duration)
      of.load.exposed.push_back({computes < 1 ? each.count / 4 : 0});
    // Who has come to the optimizer step needs no core until all are there.
    const double expected = 4 * (time_of_crowd(passes, cores, threads, computes) +
                                 time_of_crowd(steps, cores, threads, computes));
    // Every change of speed ends on a whole nanosecond.
    EXPECT_NEAR(static_cast<double>(step_time(of).count), expected, 4 * replicas)
        << "seed " << seed << ": " << replicas << " lanes, " << cores << " cores";
  }
}

TEST(SharedCores, StagesThatTakeTurnsDoNotSlowEachOther) {
  for (int stages = 1; stages <= 4; ++stages) {
    StepCase of = make_case(schedule::make_pipeline(config::PipelineOrder::k1f1b, stages, 1));
    const Nanoseconds own = step_time(of);
    share_cores(of, 1);
    EXPECT_EQ(step_time(of), own) << stages;
  }
}

TEST(SharedCores, LanesOnOtherMachinesDoNotFeelIt) {
  StepCase of = replicas_at_work(2, 1000, 500);
  share_cores(of, 1);
  EXPECT_EQ(step_time(of), Nanoseconds{3000});
  of.network.machine = {0, 1};
  EXPECT_EQ(step_time(of), Nanoseconds{1500});
}

TEST(SharedCores, AreNeverFasterThanOwnOnesNorSlowerThanOneAfterTheOther) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    StepCase of = draw_case(seed);
    const Nanoseconds own = step_time(of);
    Nanoseconds all;
    for (int action = 0; action < of.program.actions(); ++action)
      if (of.program.kind(action) == StepKind::kPass ||
          of.program.kind(action) == StepKind::kOptimize)
        all += of.load.duration[action];
    for (const double cores : {1.0, 2.0, 1000.0}) {
      share_cores(of, cores);
      const Nanoseconds shared = step_time(of);
      // Every change of speed ends on a whole nanosecond.
      const std::int64_t rounding = 2 * of.program.actions();
      EXPECT_GE(shared.count + rounding, own.count) << "seed " << seed;
      EXPECT_GE(static_cast<double>(shared.count + rounding) * cores,
                static_cast<double>(all.count) * (cores < 1000 ? 1 : 0))
          << "seed " << seed;
      if (cores < 1000) continue;
      EXPECT_LE(shared.count, own.count + rounding) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tributary::simulate
