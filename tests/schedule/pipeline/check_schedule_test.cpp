#include "schedule/pipeline/check_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utility>

#include "core/error.h"
#include "schedule/pipeline/in_flight.h"
#include "tests/schedule/pipeline/naive_executor.h"
#include "tests/schedule/pipeline/random_pipeline.h"

namespace tributary::schedule {
namespace {

using config::PipelineOrder;
using testing::HasSubstr;

std::string text_of(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& each : violations)
    text += str("[", name_of(each.rule), "] ", each.where, ": ", each.found, "\n");
  return text;
}

/// One schedule of each order, with and without encoders in front.
std::vector<Schedule> some_schedules() {
  std::vector<Schedule> schedules;
  for (const OrderTraits& traits : all_orders()) {
    Pipeline pipeline = make_pipeline(traits.order, 3, 6, 2);
    schedules.push_back(lower_schedule(schedule_passes(pipeline), {}));
    pipeline.modules[0].replicas = 2;
    pipeline.modules.push_back({.name = "vision", .stages = 2, .replicas = 3});
    pipeline.modules.push_back({.name = "audio", .order = PipelineOrder::kZbH1});
    pipeline.edges = {{.from = 1, .to = 0}, {.from = 2, .to = 0}};
    schedules.push_back(lower_schedule(schedule_passes(pipeline), {}));
  }
  return schedules;
}

/// Calls `plant(schedule, lane, place)` on a copy for each action; it returns whether it planted.
template <class Plant>
void for_each_fault(const Plant& plant) {
  int planted = 0;
  for (const Schedule& good : some_schedules()) {
    ASSERT_EQ(text_of(check_schedule(good, {})), "");
    for (std::size_t lane = 0; lane < good.lists.size(); ++lane) {
      for (std::size_t place = 0; place < good.lists[lane].size(); ++place) {
        Schedule bad = good;
        SCOPED_TRACE(str(traits_of(good.pipeline.modules[0].order).name, " lane ", lane, " ",
                         to_text(good.lists[lane][place]), " at ", place));
        if (!plant(bad, lane, place)) continue;
        ++planted;
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_GT(planted, 150);
}

/// The fault is found, under its rule, on its lane and with the action's text.
void expect_named(const Schedule& bad, Rule rule, std::size_t lane, const std::string& action) {
  const std::vector<Violation> violations = check_schedule(bad, {});
  const std::string where = PipelineMap(bad.pipeline).describe(static_cast<int>(lane));
  for (const Violation& each : violations)
    if (each.rule == rule && each.where == where && each.found.find(action) != std::string::npos)
      return;
  ADD_FAILURE() << "not named: " << name_of(rule) << " " << action << " in\n"
                << text_of(violations);
}

TEST(CheckSchedule, NamesADroppedAction) {
  for_each_fault([](Schedule& bad, std::size_t lane, std::size_t place) {
    ActionList& list = bad.lists[lane];
    Action dropped = list[place];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(place));
    // Of BW the checker misses B and W; both are named.
    if (dropped.op == Op::kBackward) dropped.op = Op::kBackwardInput;
    expect_named(bad, Rule::kComplete, lane, "no " + to_text(dropped));
    return true;
  });
}

TEST(CheckSchedule, NamesARepeatedAction) {
  for_each_fault([](Schedule& bad, std::size_t lane, std::size_t place) {
    ActionList& list = bad.lists[lane];
    const Action again = list[place];
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(place), again);
    expect_named(bad, Rule::kOnce, lane, to_text(again));
    return true;
  });
}

TEST(CheckSchedule, NamesATransferToTheWrongPeer) {
  for_each_fault([](Schedule& bad, std::size_t lane, std::size_t place) {
    Action& action = bad.lists[lane][place];
    if (action.peer < 0) return false;
    action.peer += 1;
    const bool of_edge = stream_of(action.op) == Stream::kFeatures;
    expect_named(bad, of_edge ? Rule::kComplete : Rule::kPeer, lane, to_text(action));
    return true;
  });
}

TEST(CheckSchedule, NamesAnActionThatThePipelineDoesNotHave) {
  for_each_fault([](Schedule& bad, std::size_t lane, std::size_t place) {
    Action& action = bad.lists[lane][place];
    if (!is_pass(action.op)) return false;
    action.microbatch = place % 2 == 0 ? 6 : -1;
    expect_named(bad, Rule::kKnownAction, lane, to_text(action));
    return true;
  });
}

TEST(CheckSchedule, NamesTransfersOnTheWrongSideOfTheirPass) {
  for_each_fault([](Schedule& bad, std::size_t lane, std::size_t place) {
    ActionList& list = bad.lists[lane];
    if (place + 1 == list.size() || !is_pass(list[place].op)) return false;
    const Action send = list[place + 1];
    if (!is_send(send.op)) return false;
    std::swap(list[place], list[place + 1]);
    expect_named(bad, Rule::kTransferPlace, lane, to_text(send));
    return true;
  });
}

TEST(CheckSchedule, NamesLinksThatAreReadInAnotherOrder) {
  for_each_fault([](Schedule& bad, std::size_t lane, std::size_t place) {
    ActionList& list = bad.lists[lane];
    if (place + 1 == list.size() || !is_receive(list[place].op)) return false;
    const bool same_link =
        list[place].op == list[place + 1].op && list[place].peer == list[place + 1].peer;
    if (!same_link) return false;
    std::swap(list[place], list[place + 1]);
    const std::vector<Violation> violations = check_schedule(bad, {});
    EXPECT_FALSE(violations.empty());
    for (const Violation& each : violations) EXPECT_EQ(each.rule, Rule::kLinkOrder) << each.found;
    return true;
  });
}

TEST(CheckSchedule, NamesPassesInTheWrongOrder) {
  Schedule schedule = schedule_passes(make_pipeline(PipelineOrder::kZbH1, 1, 2));
  const auto rules_of = [&](const std::string& text) {
    schedule.lists = parse_actions(text);
    return text_of(check_schedule(schedule, {}));
  };
  schedule.in_flight = {2};
  EXPECT_EQ(rules_of("F0.0 F0.1 B0.0 B0.1 W0.0 W0.1\n"), "");
  EXPECT_EQ(rules_of("B0.0 F0.0 F0.1 B0.1 W0.0 W0.1\n"),
            "[forward, input gradient, weight gradient] backbone replica 0 stage 0: B0.0 at 0, "
            "before its forward at 1\n");
  EXPECT_EQ(rules_of("F0.0 F0.1 W0.0 B0.0 B0.1 W0.1\n"),
            "[forward, input gradient, weight gradient] backbone replica 0 stage 0: W0.0 at 2, "
            "before its input gradient at 3\n");
  EXPECT_EQ(rules_of("F0.0 F0.1 B0.0 B0.1 W0.1 W0.0\n"),
            "[weight gradients in data order] backbone replica 0 stage 0: W0.1 at 4, before that "
            "of an earlier microbatch at 5\n"
            "");
}

TEST(CheckSchedule, NamesTheCircleOfADeadlock) {
  Schedule schedule = schedule_passes(make_pipeline(PipelineOrder::k1f1b, 2, 2));
  // Stage 0 wants the first gradient before it gives the second microbatch, stage 1 both first.
  schedule.lists = parse_actions("F0.0 BW0.0 F0.1 BW0.1\nF0.0 F0.1 BW0.0 BW0.1\n");
  schedule.in_flight = {2, 2};
  EXPECT_EQ(text_of(check_schedule(schedule, {})),
            "[no deadlock] backbone replica 0 stage 0: backbone replica 0 stage 0 stops at BW0.0, "
            "which waits for BW0.0 of backbone replica 0 stage 1; backbone replica 0 stage 1 stops "
            "at F0.1, which waits for F0.1 of backbone replica 0 stage 0\n");
}

TEST(CheckSchedule, NamesBuffersThatAreTooFew) {
  int overflows = 0;
  for (const Schedule& schedule : some_schedules()) {
    const std::vector<Violation> violations = check_schedule(schedule, {.receive = 1, .send = 2});
    for (const Violation& each : violations)
      EXPECT_EQ(each.rule, Rule::kReceiveBuffers) << each.found;
    if (violations.empty()) continue;
    ++overflows;
    EXPECT_THAT(text_of(violations), HasSubstr("while 1 of its link are not used yet"));
  }
  EXPECT_EQ(overflows, 2 * std::ssize(all_orders()));
}

TEST(CheckSchedule, NamesADeadlockOfFullLinks) {
  // With groups larger than the stages, stage 0 takes what the last stage gives much later.
  Pipeline pipeline = make_pipeline(PipelineOrder::kInterleaved, 2, 8, 2);
  pipeline.modules[0].group = 4;
  const Schedule passes = schedule_passes(pipeline);
  const Buffers few{.receive = 1, .send = 1};
  const std::vector<Violation> violations = check_schedule(lower_schedule(passes, few), few);
  ASSERT_EQ(violations.size(), 1U) << text_of(violations);
  EXPECT_EQ(violations[0].rule, Rule::kDeadlock);
  EXPECT_THAT(violations[0].found, HasSubstr("stage 1 stops at SF0."));
  const Buffers enough{.receive = 1, .send = 2};
  EXPECT_EQ(text_of(check_schedule(lower_schedule(passes, enough), enough)), "");
}

TEST(CheckSchedule, NamesActivationsAboveThePromise) {
  for (Schedule& schedule : some_schedules()) {
    const PipelineMap map(schedule.pipeline);
    for (int lane = 0; lane < map.lanes(); ++lane) {
      const auto peak = static_cast<int>(peak_in_flight(map, lane, schedule.lists[lane]));
      EXPECT_LE(peak, schedule.in_flight[lane]);
      const int promised = std::exchange(schedule.in_flight[lane], peak - 1);
      const std::vector<Violation> violations = check_schedule(schedule, {});
      ASSERT_EQ(violations.size(), 1U);
      EXPECT_EQ(violations[0].rule, Rule::kInFlight);
      EXPECT_EQ(violations[0].where, map.describe(lane));
      EXPECT_EQ(violations[0].found,
                str(peak, " chunk activations at once, ", peak - 1, " are promised"));
      schedule.in_flight[lane] = promised;
    }
  }
}

/// The oracle executes lists step by step and knows nothing of graphs, links or lowering.
TEST(CheckSchedule, AgreesWithAnExecutorOnSwappedPasses) {
  int accepted = 0;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    RandomStream random(seed, "swap");
    const OrderTraits& traits = all_orders()[random.below(all_orders().size())];
    const int stages = static_cast<int>(random.between(2, 4));
    const Pipeline pipeline = make_pipeline(traits.order, stages, stages, 2);
    Schedule schedule = schedule_passes(pipeline);
    ActionList& list = schedule.lists[random.below(schedule.lists.size())];
    const std::size_t first = random.below(list.size());
    const std::size_t second = std::min(first + 1 + random.below(6), list.size() - 1);
    std::swap(list[first], list[second]);
    schedule.in_flight.assign(schedule.lists.size(), 1000);
    const bool runs = runs_to_the_end(schedule);
    ASSERT_EQ(check_schedule(schedule, {}).empty(), runs) << "seed " << seed;
    ++(runs ? accepted : refused);
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 500);
}

TEST(RequireValid, ListsViolations) {
  Schedule schedule = schedule_passes(make_pipeline(PipelineOrder::k1f1b, 2, 2));
  EXPECT_NO_THROW(require_valid(schedule, {}));
  schedule.lists[1].pop_back();
  EXPECT_THAT([&] { require_valid(schedule, {}); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("action lists break the rules of their pipeline"),
                  HasSubstr("found: 2 violations"),
                  HasSubstr("backbone replica 0 stage 1: no B0.1 (rule: nothing is missing)"))));
  schedule.lists.pop_back();
  EXPECT_THAT([&] { require_valid(schedule, {}); },
              testing::ThrowsMessage<Error>(HasSubstr("not one list for each lane")));
}

}  // namespace
}  // namespace tributary::schedule
