#include "simulate/program/step_bound.h"

#include <gtest/gtest.h>
#include <map>

#include "tests/simulate/engine/step_case.h"

namespace tributary::simulate {
namespace {

using config::PipelineOrder;

Nanoseconds bound_of(const StepCase& of) {
  return bound_step(of.program, of.load, of.network).value();
}
Nanoseconds makespan(const StepCase& of) {
  return time_step(of.program, of.load, of.network).makespan;
}

/// From reductions that hide behind the passes to some that take longer than all of them.
void draw_reductions(StepCase& of, RandomStream& random) {
  draw_meetings(of, random);
  const std::int64_t longer = std::int64_t{1} << random.between(0, 6);
  for (int action = 0; action < of.program.actions(); ++action)
    if (of.program.kind(action) == StepKind::kReduce) of.load.duration[action].count *= longer;
}

/// Everything that makes a step longer, each in some cases.
void draw_hindrances(StepCase& of, RandomStream& random) {
  if (random.below(2) == 0) share_links(of, random);
  if (random.below(3) == 0) keep_features_in_a_pool(of, static_cast<int>(random.between(1, 3)));
  if (random.below(3) == 0) of.network.overlap_slowdown = 1.3;
  if (random.below(4) == 0) {
    const auto lanes = static_cast<std::size_t>(of.program.lanes());
    of.network.cores = static_cast<double>(random.between(1, 4));
    of.network.machine.assign(lanes, 0);
    of.network.threads.assign(lanes, 1);
  }
  if (random.below(3) == 0)  // stragglers
    for (int action = 0; action < of.program.actions(); ++action)
      if (of.program.kind(action) == StepKind::kPass && of.program.lane_of(action) % 3 == 0)
        of.load.duration[action].count *= 2;
}

TEST(StepBound, IsNeverAboveTheStepWhateverHindersIt) {
  std::map<PipelineOrder, int> met;
  int by_stream = 0;
  int by_link = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    StepCase of = seed % 3 == 0   ? draw_colocated_case(seed)
                  : seed % 3 == 1 ? draw_whole_batches(seed)
                                  : draw_case(seed);
    RandomStream random(seed, "bound");
    draw_reductions(of, random);
    draw_hindrances(of, random);
    const StepTimes times = time_step(of.program, of.load, of.network);
    if (!times.blocked.empty()) continue;
    const StepBound bound = bound_step(of.program, of.load, of.network);
    ASSERT_LE(bound.value(), times.makespan) << "seed " << seed;
    if (bound.stream > std::max(bound.work, bound.path)) ++by_stream;
    if (bound.link > std::max(bound.work, bound.path)) ++by_link;
    const int backbone = of.program.map().flow().back();
    met[of.program.pipeline().modules[backbone].order] += bound.value() == times.makespan ? 1 : 0;
  }
  EXPECT_GT(by_stream, 100);
  EXPECT_GT(by_link, 100);
  EXPECT_EQ(met.size(), schedule::all_orders().size());
  for (const auto& [order, count] : met) EXPECT_GT(count, 10) << static_cast<int>(order);
}

TEST(StepBound, IsTheStepOfEqualStagesWithTheirReductions) {
  for (const std::int64_t reduction : {0, 3, 40, 1000})
    for (int stages = 1; stages <= 5; ++stages)
      for (const PipelineOrder order : {PipelineOrder::k1f1b, PipelineOrder::kGpipe}) {
        const int microbatches = 2 * stages;
        schedule::Pipeline pipeline = schedule::make_pipeline(order, stages, microbatches);
        pipeline.modules[0].times.assign(static_cast<std::size_t>(stages), {{5}, {7}, {3}});
        pipeline.modules[0].replicas = 3;
        StepCase of = make_case(pipeline);
        for (int action = 0; action < of.program.actions(); ++action) {
          if (of.program.kind(action) == StepKind::kReduce) of.load.duration[action] = {reduction};
          if (of.program.kind(action) == StepKind::kOptimize) of.load.duration[action] = {20};
        }
        // The first stage comes to its reduction last.
        EXPECT_EQ(makespan(of).count, 15 * (microbatches + stages - 1) + reduction + 20);
        EXPECT_EQ(bound_of(of), makespan(of));
      }
}

TEST(StepBound, CountsReductionsThatWaitForEachOther) {
  // F0 F1 B1 B0 of 10 and 20 ns: the reduction of chunk 1 begins at 40, that of chunk 0 behind it.
  StepCase of = make_case(schedule::make_pipeline(PipelineOrder::kInterleaved, 1, 1, 2));
  for (int action = 0; action < of.program.actions(); ++action) {
    const schedule::Action& each = of.program.action(action);
    if (of.program.kind(action) == StepKind::kPass)
      of.load.duration[action] = {each.op == schedule::Op::kForward ? 10 : 20};
    if (of.program.kind(action) == StepKind::kReduce)
      of.load.duration[action] = {each.chunk == 1 ? 100 : 30};
  }
  EXPECT_EQ(makespan(of).count, 40 + 100 + 30);
  const StepBound bound = bound_step(of.program, of.load, of.network);
  EXPECT_EQ(bound.stream.count, 40 + 100 + 30);
  EXPECT_EQ(bound.work.count, 60 + 30);  // chunk 1 was hidden, for all that a lane alone knows
}

TEST(StepBound, ALinkIsFreeUntilTheFirstPassAndAfterTheLast) {
  StepCase of = make_two_encoders();  // into an entry that takes 1 byte a nanosecond
  for (int action = 0; action < of.program.actions(); ++action)
    of.load.duration[action] = {of.program.kind(action) == StepKind::kPass ? 10 : 7};
  of.network.bytes_per_ns = {1};
  for (Route& route : of.network.routes) {
    route.bytes_per_ns = 1;
    route.links = {{.link = 0}};
  }
  EXPECT_EQ(makespan(of).count, 10 + 200 + 20 + 7 + 7);
  EXPECT_EQ(bound_step(of.program, of.load, of.network).link.count,
            makespan(of).count - 1);  // a billionth is left for rounding
}

// ---- any order ----

/// All ways to merge the passes of the microbatches of a lane, each microbatch in its own order.
std::vector<schedule::ActionList> merge_all(const schedule::ActionList& list) {
  std::map<int, schedule::ActionList> of_microbatch;
  std::vector<int> turns;
  for (const schedule::Action& pass : list) {
    of_microbatch[pass.microbatch].push_back(pass);
    turns.push_back(pass.microbatch);
  }
  std::sort(turns.begin(), turns.end());
  std::vector<schedule::ActionList> merged;
  do {
    std::map<int, std::size_t> next;
    merged.emplace_back();
    for (const int microbatch : turns)
      merged.back().push_back(of_microbatch[microbatch][next[microbatch]++]);
  } while (std::next_permutation(turns.begin(), turns.end()));
  return merged;
}

/// Calls visit(lists) for every choice of one list for each lane.
template <class Visit>
void for_all_lists(const std::vector<std::vector<schedule::ActionList>>& choices,
                   std::vector<schedule::ActionList>& lists, const Visit& visit) {
  if (lists.size() == choices.size()) return visit(lists);
  for (const schedule::ActionList& list : choices[lists.size()]) {
    lists.push_back(list);
    for_all_lists(choices, lists, visit);
    lists.pop_back();
  }
}

schedule::Pipeline draw_small_pipeline(RandomStream& random) {
  const auto& traits = schedule::all_orders()[random.below(schedule::all_orders().size())];
  const int chunks = traits.chunks == 1 ? 1 : 2;
  const int stages = chunks == 1 ? static_cast<int>(random.between(1, 2)) : 1;
  schedule::Pipeline pipeline = schedule::make_pipeline(traits.order, stages, 2, chunks);
  if (chunks == 1 && !traits.splits_backward && random.below(2) == 0) pipeline.microbatches = 3;
  schedule::draw_times(random, pipeline.modules[0]);
  schedule::draw_frozen(random, pipeline.modules[0]);
  pipeline.hop = {random.between(0, 9)};
  return pipeline;
}

/// What a lane's actions take, in whatever order they are.
std::int64_t time_of(const schedule::Action& of, int lane, std::uint64_t seed) {
  RandomStream random(seed, "time", static_cast<std::uint64_t>(lane),
                      static_cast<std::uint64_t>(of.chunk));
  const std::int64_t reduction = random.between(0, 300);
  const std::int64_t step = random.between(0, 50);
  return of.op == schedule::Op::kReduceGradients ? reduction : step;
}

StepCase case_of(const schedule::Schedule& passes, std::uint64_t seed) {
  const schedule::Buffers many{.receive = 16, .send = 16};
  schedule::Schedule lowered = lower_schedule(passes, many);
  StepProgram program(lowered, many);
  const schedule::ScheduleCosts costs = costs_of(program.map());
  StepLoad load;
  for (int action = 0; action < program.actions(); ++action) {
    const int lane = program.lane_of(action);
    const bool is_meeting =
        program.kind(action) == StepKind::kReduce || program.kind(action) == StepKind::kOptimize;
    load.duration.push_back(is_meeting ? Nanoseconds{time_of(program.action(action), lane, seed)}
                                       : costs.action(lane, program.action(action)));
  }
  Network network;
  network.routes.assign(program.channels().size(), {.latency = passes.pipeline.hop});
  return {std::move(lowered), many, std::move(program), std::move(load), std::move(network)};
}

TEST(StepBound, NoOrderOfThePassesIsBelow) {
  int met = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RandomStream random(seed, "any order");
    const schedule::Schedule drawn = schedule_passes(draw_small_pipeline(random));
    const Nanoseconds bound = bound_of(case_of(drawn, seed));
    std::vector<std::vector<schedule::ActionList>> choices;
    for (const schedule::ActionList& list : drawn.lists) choices.push_back(merge_all(list));
    Nanoseconds best{std::int64_t{1} << 60};
    std::vector<schedule::ActionList> lists;
    for_all_lists(choices, lists, [&](const std::vector<schedule::ActionList>& each) {
      schedule::Schedule ordered = drawn;
      ordered.lists = each;
      const StepCase of = case_of(ordered, seed);
      ASSERT_EQ(bound_of(of), bound) << "seed " << seed;  // it asks for no order
      const StepTimes times = time_step(of.program, of.load, of.network);
      if (times.blocked.empty()) best = std::min(best, times.makespan);
    });
    ASSERT_LE(bound, best) << "seed " << seed;
    met += bound == best ? 1 : 0;
  }
  EXPECT_GT(met, 10);
}

}  // namespace
}  // namespace tributary::simulate
