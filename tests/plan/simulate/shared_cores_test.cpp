#include <gtest/gtest.h>

#include "tests/plan/simulate/step_case.h"

namespace tributary::plan {
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

Nanoseconds makespan(const StepCase& of) {
  return time_step(of.program, of.load, of.network).makespan;
}

TEST(SharedCores, MoreLanesThanCoresTakeTheirWorkOverTheCores) {
  for (int replicas = 1; replicas <= 8; ++replicas) {
    for (int cores = 1; cores <= 4; ++cores) {
      StepCase of = replicas_at_work(replicas, 1200, 2400);
      share_cores(of, cores);
      const std::int64_t expected = 3600 * std::max(replicas, cores) / cores;
      EXPECT_NEAR(static_cast<double>(makespan(of).count), static_cast<double>(expected), 4)
          << replicas << " lanes, " << cores << " cores";
    }
  }
}

TEST(SharedCores, CollectivesWithinAPassNeedNoCore) {
  StepCase of = replicas_at_work(4, 1000, 1000);
  of.load.exposed = of.load.duration;  // nothing but collectives
  share_cores(of, 1);
  EXPECT_EQ(makespan(of), Nanoseconds{2000});
  for (Nanoseconds& exposed : of.load.exposed) exposed.count /= 2;
  // Four lanes ask for half a core each: on one core their computing takes twice as long.
  EXPECT_NEAR(static_cast<double>(makespan(of).count), 2 * (500 + 1000), 2);
}

TEST(SharedCores, LanesOnOtherMachinesDoNotFeelIt) {
  StepCase of = replicas_at_work(2, 1000, 500);
  share_cores(of, 1);
  EXPECT_EQ(makespan(of), Nanoseconds{3000});
  of.network.machine = {0, 1};
  EXPECT_EQ(makespan(of), Nanoseconds{1500});
}

TEST(SharedCores, AreNeverFasterThanOwnOnesNorSlowerThanOneAfterTheOther) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    StepCase of = draw_case(seed);
    const Nanoseconds own = makespan(of);
    Nanoseconds all;
    for (int action = 0; action < of.program.actions(); ++action)
      if (of.program.kind(action) == StepKind::kPass ||
          of.program.kind(action) == StepKind::kOptimize)
        all += of.load.duration[action];
    for (const double cores : {1.0, 2.0, 1000.0}) {
      share_cores(of, cores);
      const Nanoseconds shared = makespan(of);
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
}  // namespace tributary::plan
