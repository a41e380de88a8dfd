#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "schedule/pipeline/check_schedule.h"
#include "schedule/pipeline/time_schedule.h"
#include "tests/schedule/pipeline/random_pipeline.h"
#include "tests/schedule/pipeline/spoilt_schedule.h"

namespace tributary::schedule {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// Frozen vision on each rank of a pipeline of `stages`, a rank each.
Pipeline make_ahead(int stages, int microbatches, int passes, bool ahead = true) {
  return make_colocated(stages, microbatches,
                        {.passes = passes, .takes_turns = true, .ahead = ahead, .trains = {false}});
}

TEST(AheadPipeline, EncodesWhereThePipelineWaits) {
  const Schedule schedule = schedule_passes(make_ahead(2, 4, 2));
  // Stage 0 waits longest for its first gradient, then equally for two later ones; stage 1 at its
  // end, as long as both passes take.
  EXPECT_EQ(lists_of(schedule, 0, 2),
            "TS0.0 TR0.0 F0.0 F0.1 TS0.1 TR0.1 F0.2 F0.3 TS0.2\n"
            "TS0.0 TR0.0 F0.0 F0.1 F0.2 F0.3\n");
  EXPECT_EQ(lists_of(schedule, 2, 2),
            "TR0.0 F0.0 F0.1 TS0.0 TR0.1 BW0.0 F0.2 BW0.1 F0.3 BW0.2 TS0.1 TR0.2 BW0.3\n"
            "TR0.0 F0.0 BW0.0 F0.1 BW0.1 F0.2 BW0.2 F0.3 BW0.3 TS0.0\n");
}

TEST(AheadPipeline, EncodesBehindABackboneThatNeverWaits) {
  const Schedule schedule = schedule_passes(make_ahead(1, 2, 2));
  EXPECT_EQ(lists_of(schedule, 0, 2),
            "TS0.0 TR0.0 F0.0 F0.1\n"
            "TR0.0 F0.0 BW0.0 F0.1 BW0.1 TS0.0\n");
}

TEST(AheadPipeline, ReceivesInTheStepBefore) {
  Pipeline pipeline = make_ahead(2, 3, 2);
  pipeline.next_microbatches = 2;
  const Schedule schedule = lower_schedule(schedule_passes(pipeline), {});
  EXPECT_NO_THROW(require_valid(schedule, {}));
  const auto count = [](const ActionList& list, Op op) {
    return std::ranges::count(list, op, &Action::op);
  };
  for (const int lane : {0, 1}) {
    EXPECT_EQ(count(schedule.lists[lane], Op::kForward), 2) << "of the step after";
    EXPECT_EQ(schedule.lists[lane].back().op, Op::kOptimizerStep) << "the step ends after them";
  }
  EXPECT_EQ(count(schedule.lists[2], Op::kForward), 3);
  EXPECT_EQ(count(schedule.lists[2], Op::kReceiveFeatures), 2);
  EXPECT_EQ(count(schedule.lists[3], Op::kReceiveFeatures), 0);
  pipeline.next_microbatches = 0;
  const Schedule last = lower_schedule(schedule_passes(pipeline), {});
  EXPECT_NO_THROW(require_valid(last, {}));
  EXPECT_EQ(count(last.lists[0], Op::kForward), 0);
  EXPECT_EQ(count(last.lists[2], Op::kReceiveFeatures), 0);
}

TEST(AheadPipeline, ChecksWhatIsDoneForTheStepAfter) {
  const Schedule schedule = lower_schedule(schedule_passes(make_ahead(2, 4, 2)), {});
  const auto rules_of = [&](const auto& spoil) { return rules_broken(schedule, spoil); };
  EXPECT_TRUE(rules_of([](auto&) {}).empty());
  EXPECT_THAT(rules_of([&](auto& lists) { lists[2].erase(find(lists[2], Op::kReceiveFeatures)); }),
              Contains(Rule::kComplete));
  EXPECT_THAT(rules_of([&](auto& lists) {
                lists[2].insert(lists[2].begin(), *find(lists[2], Op::kReceiveFeatures));
              }),
              Contains(Rule::kOnce));
  EXPECT_THAT(rules_of([&](auto& lists) { std::swap(lists[2][0], lists[2][1]); }),
              Contains(Rule::kLinkOrder));
  EXPECT_THAT(rules_of([&](auto& lists) { lists[0].pop_back(); }), Contains(Rule::kComplete));
  EXPECT_THAT(rules_of([&](auto& lists) { lists[0].erase(find(lists[0], Op::kForward)); }),
              Contains(Rule::kComplete));
  EXPECT_THAT(rules_of([&](auto& lists) { lists[0].erase(find(lists[0], Op::kReceiveTurn)); }),
              Contains(Rule::kTurns));
}

TEST(AheadPipeline, IsFrozenAndTakesTurns) {
  for (const bool trains : {true, false}) {
    Pipeline pipeline = make_ahead(2, 4, 2);
    pipeline.modules[0].trains = {trains};
    pipeline.modules[0].takes_turns = trains;
    EXPECT_THAT([&] { const PipelineMap map(pipeline); },
                testing::ThrowsMessage<Error>(HasSubstr("cannot encode for the step after")));
  }
}

TEST(AheadPipeline, TakesLessTimeThanInItsOwnStep) {
  for (const int stages : {2, 4})
    for (const int passes : {1, 2, 4})
      for (const std::int64_t forward : {1, 4, 10, 20}) {
        const auto time_of = [&](bool ahead) {
          Pipeline pipeline = make_ahead(stages, 8, passes, ahead);
          pipeline.modules[1].times.assign(static_cast<std::size_t>(stages), {{10}, {10}, {10}});
          const Schedule schedule = lower_schedule(schedule_passes(pipeline), {});
          require_valid(schedule, {});
          const PipelineMap map(schedule.pipeline);
          const PassGroups groups = pipeline.modules[0].groups_of(8);
          ScheduleCosts costs = costs_of(map);
          const auto backbone = costs.action;
          costs.action = [&](int lane, const Action& action) {
            if (!map.is_colocated(lane) || !is_pass(action.op)) return backbone(lane, action);
            const std::int64_t pass = groups.pass_of(action.microbatch);
            return Nanoseconds{action.microbatch == groups.first_of(pass) ? forward : 0};
          };
          return makespan_of(DependencyGraph(schedule, map, {}), costs).count;
        };
        EXPECT_LT(time_of(true), time_of(false))
            << stages << " stages, " << passes << " passes of " << forward;
        EXPECT_GE(time_of(true),
                  std::max<std::int64_t>(8 * 30 + passes * forward, (8 + stages - 1) * 30));
      }
}

}  // namespace
}  // namespace tributary::schedule
