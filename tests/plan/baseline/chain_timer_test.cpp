#include "plan/baseline/chain_timer.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/text.h"
#include "schedule/pipeline/time_schedule.h"

namespace tributary::plan {
namespace {

TEST(Time1F1B, EqualsItsClosedFormOnEqualStages) {
  const std::vector<StageTimes> times(4 * 8, {1, 2});
  EXPECT_NEAR(time_1f1b(4, times), (8 + 3) * 3.0, 1e-9);
  for (const double idle : idle_in_1f1b(4, times)) EXPECT_NEAR(idle, 9.0, 1e-9);
}

TEST(Time1F1B, EqualsTheActionListsOnAnyTimes) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "chain timer");
    const auto stages = static_cast<int>(random.between(1, 9));
    const auto microbatches = static_cast<int>(random.between(1, 12));
    SCOPED_TRACE(str("seed ", seed, ": ", stages, " stages, ", microbatches, " microbatches"));
    std::vector<StageTimes> times;
    for (int i = 0; i < stages * microbatches; ++i)
      times.push_back({1e-9 * double(random.between(0, 50)), 1e-9 * double(random.between(0, 90))});
    const schedule::Schedule lists =
        schedule::schedule_passes({.modules = {{.name = "chain", .stages = stages}},
                                   .edges = {},
                                   .microbatches = microbatches});
    const schedule::PipelineMap map(lists.pipeline);
    const schedule::DependencyGraph graph(lists, map, {});
    const auto cost = [&](int lane, const schedule::Action& pass) {
      const StageTimes& mine = times[lane * microbatches + pass.microbatch];
      return to_nanoseconds(pass.op == schedule::Op::kForward ? mine.forward : mine.backward);
    };
    const schedule::ScheduleTime expected = time_schedule(graph, map, {.action = cost, .hop = {}});
    EXPECT_EQ(to_nanoseconds(time_1f1b(stages, times)), expected.makespan);
    const std::vector<double> idle = idle_in_1f1b(stages, times);
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_EQ(to_nanoseconds(idle[stage]), expected.lanes[stage].idle());
  }
}

}  // namespace
}  // namespace tributary::plan
