#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/engine/contention.h"
#include "simulate/program/step_bound.h"
#include "tests/simulate/engine/step_case.h"

namespace tributary::simulate {
namespace {

using config::PipelineOrder;
using schedule::Op;
using schedule::PassTimes;

std::int64_t makespan(const StepCase& of) {
  return time_step(of.program, of.load, of.network).makespan.count;
}

TEST(StepEngine, ReproducesTheClosedForms) {
  for (int stages = 1; stages <= 6; ++stages) {
    const int microbatches = 2 * stages;
    const auto step = [&](PipelineOrder order, int chunks, PassTimes times) {
      schedule::Pipeline pipeline = schedule::make_pipeline(order, stages, microbatches, chunks);
      pipeline.modules[0].times.assign(std::size_t{1} * stages * chunks, times);
      return makespan(make_case(pipeline));
    };
    const PassTimes times{{5}, {7}, {3}};
    const std::int64_t work = 15 * microbatches;
    EXPECT_EQ(step(PipelineOrder::kGpipe, 1, times), work + 15 * (stages - 1));
    EXPECT_EQ(step(PipelineOrder::k1f1b, 1, times), work + 15 * (stages - 1));
    EXPECT_EQ(step(PipelineOrder::kInterleaved, 2, times), 2 * work + 15 * (stages - 1));
    EXPECT_EQ(step(PipelineOrder::kZbH1, 1, times), work + (5 + 7 - 3) * (stages - 1));
  }
}

TEST(StepEngine, ReproducesTheReferenceCases) {
  schedule::Pipeline uneven = schedule::make_pipeline(PipelineOrder::k1f1b, 3, 10);
  uneven.modules[0].times = {{{2}, {2}, {2}}, {{5}, {5}, {5}}, {{3}, {3}, {3}}};
  EXPECT_EQ(makespan(make_case(uneven)), 160);
  // Stages (encoder, backbone, backbone), six rounds of unequal work:
  // docs/theory/planning.md, "Reference steps".
  schedule::Pipeline branch{
      .modules = {{.name = "encoder"}, schedule::make_module(PipelineOrder::k1f1b, 2)},
      .edges = {{.from = 0, .to = 1}},
      .microbatches = 6};
  StepCase of = make_case(branch);
  const std::vector<std::int64_t> encoder{4, 1, 6, 2, 3, 5};
  const std::vector<std::int64_t> backbone{2, 5, 3, 4, 1, 6};
  for (int action = 0; action < of.program.actions(); ++action) {
    if (of.program.kind(action) != StepKind::kPass) continue;
    const std::int64_t forward =
        (of.program.lane_of(action) == 0 ? encoder
                                         : backbone)[of.program.action(action).microbatch];
    of.load.duration[action] = {of.program.action(action).op == Op::kForward ? forward
                                                                             : 2 * forward};
  }
  EXPECT_EQ(makespan(of), 110);
  EXPECT_EQ(bound_step(of.program, of.load, of.network).work.count, 75);
}

/// The timing of the schedule room works on a graph of waits and knows nothing of this engine.
TEST(StepEngine, EqualsTheTimingOfTheDependencyGraph) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const StepCase of = draw_case(seed);
    const schedule::PipelineMap map(of.schedule.pipeline);
    const schedule::DependencyGraph graph(of.schedule, map, of.buffers);
    // Reductions hold the lane there; without cost and with lanes of their own they are the same.
    bool meets = false;
    for (const StepMeeting& each : of.program.reductions()) meets |= each.members.size() > 1;
    if (meets) continue;
    int action = 0;
    const schedule::ScheduleCosts costs{
        .action = [&](int, const schedule::Action&) { return of.load.duration[action++]; },
        .hop = [&](int, int, Bytes) { return of.schedule.pipeline.hop; }};
    // Costs are asked in the order of the graph, not of the lists: look them up instead.
    std::map<const schedule::Action*, Nanoseconds> duration;
    for (int node = 0; node < graph.actions(); ++node)
      duration[&graph.action(node)] = of.load.duration[node];
    const schedule::ScheduleCosts by_action{
        .action = [&](int, const schedule::Action& each) { return duration.at(&each); },
        .hop = costs.hop};
    const schedule::ScheduleTime expected = time_schedule(graph, map, by_action);
    const StepTimes found = run_longest_path(of.program, of.load, of.network);
    ASSERT_TRUE(found.blocked.empty()) << describe_blocked(of.program, found);
    ASSERT_EQ(found.makespan, expected.makespan) << "seed " << seed;
    for (int node = 0; node < graph.actions(); ++node)
      if (of.program.kind(node) == StepKind::kPass) {
        ASSERT_EQ(found.actions[node].start, expected.start[node]) << "seed " << seed;
      }
  }
}

TEST(StepEngine, BothEnginesAgreeWhereNothingIsShared) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    StepCase of = draw_case(seed);
    RandomStream random(seed, "unshared");
    draw_meetings(of, random);
    for (Route& route : of.network.routes) {
      route.bytes_per_ns = static_cast<double>(random.between(0, 5));
    }
    if (random.below(2) == 0) keep_features_in_a_pool(of, static_cast<int>(random.between(1, 3)));
    if (random.below(2) == 0)
      for (std::size_t message = 0; message < of.program.messages().size(); ++message)
        of.load.bytes.push_back({random.between(0, 90)});
    if (random.below(2) == 0) begin_as_left(of, random);
    ASSERT_TRUE(are_equal(run_longest_path(of.program, of.load, of.network),
                          run_events(of.program, of.load, of.network)))
        << "seed " << seed;
  }
}

/// The longest path, with events where something is short, against events alone.
TEST(StepEngine, EqualsTheEventsToTheBitWhateverIsShared) {
  int unshared = 0;
  int by_groups = 0;
  int whole = 0;
  int slowed = 0;
  int blocked = 0;
  for (std::uint64_t seed = 0; seed < 2500; ++seed) {
    const bool comes_whole = seed % 5 == 0;
    StepCase of = comes_whole ? draw_whole_batches(seed) : draw_case(seed);
    RandomStream random(seed, "contention");
    draw_meetings(of, random);
    share_links(of, random);
    // From links that are always short to some that hardly ever are.
    const auto wider = static_cast<double>(std::int64_t{1} << random.between(0, 8));
    for (double& rate : of.network.bytes_per_ns) rate *= wider;
    for (Route& route : of.network.routes) {
      route.bytes_per_ns *= wider;
      for (LinkUse& use : route.links) use.weight = random.uniform() + 0.25;
    }
    if (random.below(3) == 0) keep_features_in_a_pool(of, static_cast<int>(random.between(1, 3)));
    if (random.below(3) == 0) of.network.overlap_slowdown = 1.13;
    if (random.below(3) == 0) begin_as_left(of, random);
    const StepTimes found = time_step(of.program, of.load, of.network);
    const StepTimes alone = run_longest_path(of.program, of.load, of.network);
    ASSERT_EQ(describe_blocked(of.program, found), describe_blocked(of.program, alone));
    ASSERT_TRUE(are_equal(found, run_events(of.program, of.load, of.network))) << "seed " << seed;
    if (!found.blocked.empty()) {  // chunks can need more than one buffer at each end
      ASSERT_EQ(of.buffers, (schedule::Buffers{.receive = 1, .send = 1})) << "seed " << seed;
      ++blocked;
      continue;
    }
    const auto groups = find_contention(of.program, of.network, alone);
    unshared += groups.empty() ? 1 : 0;
    by_groups += !groups.empty() && std::ssize(groups.front()) < of.program.lanes() ? 1 : 0;
    whole += !groups.empty() && comes_whole ? 1 : 0;
    slowed += slows_a_pass(of.program, of.network, found) ? 1 : 0;
  }
  // Each way was taken often.
  EXPECT_GT(unshared, 200);
  EXPECT_GT(by_groups, 200);
  EXPECT_GT(whole, 100);
  EXPECT_GT(slowed, 25);
  EXPECT_LT(blocked, 25);
}

TEST(StepEngine, AccountsForEveryNanosecond) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    StepCase of = draw_case(seed);
    RandomStream random(seed, "account");
    draw_meetings(of, random);
    if (seed % 2 == 0) share_links(of, random);
    of.load.exposed.resize(of.load.duration.size());
    for (std::size_t i = 0; i < of.load.duration.size(); ++i)
      of.load.exposed[i] = {random.between(0, of.load.duration[i].count)};
    const StepTimes times = time_step(of.program, of.load, of.network);
    ASSERT_TRUE(times.blocked.empty());
    const auto accounts = account_lanes(of.program, of.load, times);
    for (int lane = 0; lane < of.program.lanes(); ++lane) {
      std::int64_t passes = 0;
      for (int action = of.program.first_action(lane); action < of.program.first_action(lane + 1);
           ++action)
        if (of.program.kind(action) == StepKind::kPass) passes += of.load.duration[action].count;
      ASSERT_EQ(accounts[lane].total(), times.makespan) << "seed " << seed;
      ASSERT_EQ((accounts[lane][TimeUse::kCompute] + accounts[lane][TimeUse::kCollective]).count,
                passes)
          << "seed " << seed;
    }
  }
}

TEST(StepEngine, BoundsAreNeverAboveTheValue) {
  int tight = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    StepCase of = draw_case(seed);
    RandomStream random(seed, "bound");
    draw_meetings(of, random);
    if (seed % 2 == 0) share_links(of, random);
    const StepTimes times = time_step(of.program, of.load, of.network);
    const StepBound bound = bound_step(of.program, of.load, of.network);
    ASSERT_LE(bound.value(), times.makespan) << "seed " << seed;
    tight += bound.value() == times.makespan ? 1 : 0;
  }
  EXPECT_GT(tight, 10);
}

TEST(StepEngine, CriticalPathFillsTheStepWithoutAGap) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    StepCase of = draw_case(seed);
    RandomStream random(seed, "path");
    draw_meetings(of, random);
    if (seed % 2 == 0) share_links(of, random);
    if (seed % 3 == 0) keep_features_in_a_pool(of, 3);
    ASSERT_TRUE(path_fills_step(of)) << "seed " << seed;
  }
}

TEST(StepEngine, SharesALinkBetweenTheMessagesOnIt) {
  StepCase of = make_two_encoders();  // into an entry that takes 1 byte a nanosecond
  for (int action = 0; action < of.program.actions(); ++action)
    if (of.program.kind(action) == StepKind::kPass) of.load.duration[action] = {10};
  for (Route& route : of.network.routes) route.bytes_per_ns = 1;
  EXPECT_EQ(makespan(of), 10 + 100 + 20);
  of.network.bytes_per_ns = {1};
  for (Route& route : of.network.routes) route.links = {{.link = 0}};
  EXPECT_EQ(makespan(of), 10 + 200 + 20);
  of.load.duration[of.program.first_action(1)] = {60};  // b begins when half of a's bytes are there
  EXPECT_EQ(makespan(of), 10 + 200 + 20);
}

TEST(StepEngine, SlowsPassesBesideAReduction) {
  // Two chunks: the first to finish is reduced while the other still computes.
  StepCase of = make_case(schedule::make_pipeline(PipelineOrder::kInterleaved, 1, 1, 2));
  for (int action = 0; action < of.program.actions(); ++action) {
    const StepKind kind = of.program.kind(action);
    if (kind == StepKind::kPass) of.load.duration[action] = {100};
    if (kind == StepKind::kReduce) of.load.duration[action] = {40};
  }
  EXPECT_EQ(makespan(of), 400 + 40);
  of.network.overlap_slowdown = 1.5;  // 40 ns beside it do the work of 26 2/3
  EXPECT_EQ(makespan(of), 300 + 40 + 74 + 40);
}

TEST(StepEngine, PoolHoldsAFastEncoderBack) {
  schedule::Pipeline pipeline{
      .modules = {{.name = "vision", .trains = {false}}, {.name = "backbone"}},
      .edges = {{.from = 0, .to = 1}},
      .microbatches = 8};
  StepCase of = make_case(pipeline);
  for (int action = 0; action < of.program.actions(); ++action)
    if (of.program.kind(action) == StepKind::kPass)
      of.load.duration[action] = {of.program.lane_of(action) == 0 ? 1 : 20};
  of.network.routes[0].capacity = 3;
  const StepTimes times = time_step(of.program, of.load, of.network);
  // At most three are in the pool: given, and not yet taken.
  for (const MessageTimes& each : times.messages) {
    int held = 0;
    for (const MessageTimes& other : times.messages)
      held += other.given <= each.given && other.taken > each.given ? 1 : 0;
    EXPECT_LE(held, 3);
  }
  const auto accounts = account_lanes(of.program, of.load, times);
  EXPECT_GT(accounts[0][TimeUse::kBackPressure].count, 0);
  EXPECT_EQ(times.makespan.count, 1 + 8 * 40);
}

TEST(StepEngine, FasterNeverMakesAStepLonger) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    StepCase of = draw_case(seed);
    RandomStream random(seed, "monotone");
    draw_meetings(of, random);
    for (Route& route : of.network.routes) route.bytes_per_ns = 2;
    for (std::size_t message = 0; message < of.program.messages().size(); ++message)
      of.load.bytes.push_back({random.between(0, 90)});
    const std::int64_t before = makespan(of);
    StepCase faster = draw_case(seed);
    faster.load = of.load;
    faster.network = of.network;
    for (Route& route : faster.network.routes) route.bytes_per_ns = 3;
    ASSERT_LE(makespan(faster), before) << "seed " << seed;
    for (Bytes& bytes : faster.load.bytes) bytes.count /= 2;
    for (Nanoseconds& duration : faster.load.duration) duration.count -= duration.count / 3;
    ASSERT_LE(makespan(faster), before) << "seed " << seed;
  }
}

TEST(StepEngine, ReplaysBitEqual) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto run = [seed] {
      StepCase of = draw_case(seed);
      RandomStream random(seed, "replay");
      share_links(of, random);
      return time_step(of.program, of.load, of.network);
    };
    ASSERT_TRUE(are_equal(run(), run())) << "seed " << seed;
  }
}

TEST(StepEngine, AListThatNeverEndsIsAResult) {
  schedule::Schedule lowered =
      lower_schedule(schedule_passes(schedule::make_pipeline(PipelineOrder::k1f1b, 2, 2)), {});
  // The first stage wants the gradient of microbatch 0 before it has run it forward.
  schedule::ActionList& list = lowered.lists[0];
  const auto first = [&list](Op op) {
    return std::find_if(list.begin(), list.end(),
                        [op](const schedule::Action& each) { return each.op == op; });
  };
  std::swap(*first(Op::kForward), *first(Op::kBackward));
  const StepProgram program(lowered, {});
  StepLoad load;
  load.duration.assign(static_cast<std::size_t>(program.actions()), {1});
  Network network;
  network.routes.resize(program.channels().size());
  for (const StepTimes& times :
       {run_longest_path(program, load, network), run_events(program, load, network)}) {
    ASSERT_EQ(times.blocked.size(), 2u);
    EXPECT_THAT(describe_blocked(program, times),
                testing::StrEq("BW0.0 of backbone replica 0 stage 0 waits for SB0.0 of backbone "
                               "replica 0 stage 1; F0.0 of backbone replica 0 stage 1 waits for "
                               "SF0.0 of backbone replica 0 stage 0"));
  }
}

template <class Call>
void expect_refusal(const Call& call, const std::string& words) {
  EXPECT_THAT(call, testing::ThrowsMessage<Error>(testing::HasSubstr(words)));
}

TEST(StepEngine, NamesWhatCannotBeUsed) {
  StepCase of = make_case(schedule::make_pipeline(PipelineOrder::k1f1b, 2, 2));
  const auto run = [&of] { (void)time_step(of.program, of.load, of.network); };
  of.load.duration[1] = {-1};
  expect_refusal(run, "; found: -1 ns; expected: 0 ns or above");
  of.load.duration[1] = {1};
  of.network.routes[0].bytes_per_ns = std::nan("");
  expect_refusal(run, "route cannot be used; where: channel 0; found: nan bytes/ns");
  of.network.routes[0].bytes_per_ns = 1;
  of.network.bytes_per_ns = {0};
  expect_refusal(run, "link has no bandwidth; where: link 0; found: 0 bytes/ns");
  of.network.bytes_per_ns = {1};
  of.network.routes[0].links = {{.link = 1}};
  expect_refusal(run, "route cannot be used; where: channel 0; found: link 1");
  of.network.routes[0].links = {};
  of.network.overlap_slowdown = 0.5;
  expect_refusal(run, "where: overlap_slowdown; found: 0.5; expected: a finite number, 1 or above");
}

}  // namespace
}  // namespace tributary::simulate
