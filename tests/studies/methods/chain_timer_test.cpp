#include "studies/methods/chain_timer.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/text.h"
#include "schedule/pipeline/time_schedule.h"

namespace tributary::studies {
namespace {

TEST(Time1F1B, EqualsItsClosedFormOnEqualStages) {
  const std::vector<PassSeconds> times(4 * 8, {1, 2});
  EXPECT_NEAR(time_1f1b(4, times), (8 + 3) * 3.0, 1e-9);
  for (const double idle : idle_in_1f1b(4, times)) EXPECT_NEAR(idle, 9.0, 1e-9);
}

TEST(Time1F1B, EqualsTheActionListsOnAnyTimes) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "chain timer");
    const auto stages = static_cast<int>(random.between(1, 9));
    const auto microbatches = static_cast<int>(random.between(1, 12));
    SCOPED_TRACE(str("seed ", seed, ": ", stages, " stages, ", microbatches, " microbatches"));
    std::vector<PassSeconds> times;
    for (int i = 0; i < stages * microbatches; ++i)
      times.push_back({1e-9 * double(random.between(0, 50)), 1e-9 * double(random.between(0, 90))});
    const schedule::Schedule lists =
        schedule::schedule_passes({.modules = {{.name = "chain", .stages = stages}},
                                   .edges = {},
                                   .microbatches = microbatches});
    const schedule::PipelineMap map(lists.pipeline);
    const schedule::DependencyGraph graph(lists, map, {});
    const auto cost = [&](int lane, const schedule::Action& pass) {
      const PassSeconds& mine = times[lane * microbatches + pass.microbatch];
      return to_nanoseconds(pass.op == schedule::Op::kForward ? mine.forward : mine.backward);
    };
    const schedule::ScheduleTime expected = time_schedule(graph, map, {.action = cost, .hop = {}});
    EXPECT_EQ(to_nanoseconds(time_1f1b(stages, times)), expected.makespan);
    const std::vector<double> idle = idle_in_1f1b(stages, times);
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_EQ(to_nanoseconds(idle[stage]), expected.lanes[stage].idle());
  }
}

TEST(TimeNested1F1B, Is1F1BBetweenTheEncodersPasses) {
  const std::vector<PassSeconds> times(3 * 4, {1, 2});
  EXPECT_NEAR(time_nested_1f1b(3, times, std::vector<PassSeconds>(3 * 4)), time_1f1b(3, times),
              1e-9);
  // One microbatch: before all of it and after all of it.
  EXPECT_NEAR(time_nested_1f1b(3, std::vector<PassSeconds>(3, {1, 2}), {{{4, 6}, {3, 9}, {5, 7}}}),
              5 + 3 * 3 + 9, 1e-9);
  // One stage has everything one after another.
  EXPECT_NEAR(
      time_nested_1f1b(1, std::vector<PassSeconds>(4, {1, 2}), std::vector<PassSeconds>(4, {3, 5})),
      4 * 11.0, 1e-9);
}

TEST(TimeNested1F1B, IsNoLessThanAnyStageAndThanWithoutAnEncoder) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "nested");
    const auto stages = static_cast<int>(random.between(1, 6));
    const auto microbatches = static_cast<int>(random.between(1, 9));
    const auto draw = [&] {
      std::vector<PassSeconds> times;
      for (int i = 0; i < stages * microbatches; ++i)
        times.push_back({double(random.between(0, 50)), double(random.between(0, 90))});
      return times;
    };
    const std::vector<PassSeconds> times = draw();
    const std::vector<PassSeconds> encoder = draw();
    const double found = time_nested_1f1b(stages, times, encoder);
    EXPECT_GE(found, time_1f1b(stages, times) - 1e-6);
    double all = 0;
    for (int stage = 0; stage < stages; ++stage) {
      double work = 0;
      for (int i = stage * microbatches; i < (stage + 1) * microbatches; ++i)
        work += times[i].forward + times[i].backward + encoder[i].forward + encoder[i].backward;
      EXPECT_GE(found, work - 1e-6);
      all += work;
    }
    EXPECT_LE(found, all + 1e-6);  // some stage works at any time
  }
}

}  // namespace
}  // namespace tributary::studies
