#include "studies/methods/interleaved/interleaved_order.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "core/random.h"
#include "core/text.h"
#include "schedule/pipeline/time_schedule.h"
#include "studies/methods/round_orders.h"

namespace tributary::studies {
namespace {

TEST(InterleavedOrder, HasTheBubbleOf1F1BOverTheChunks) {
  for (const int chunks : {2, 3, 5}) {
    InterleavedOrder order({.stages = 4, .microbatches = 8, .chunks = chunks});
    std::vector<std::int64_t> passes(2 * 4 * 8 * chunks, 60);           // forwards
    std::fill_n(passes.begin() + 4 * 8 * chunks, 4 * 8 * chunks, 120);  // backwards
    EXPECT_EQ(order.makespan(passes, natural_order(8)), 8 * 180 * chunks + 3 * 180);
  }
}

TEST(InterleavedOrder, EqualsTheActionListsOnAnyTimes) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    RandomStream random(seed, "interleaved order");
    const auto stages = static_cast<int>(random.between(1, 5));
    const auto chunks = static_cast<int>(random.between(2, 4));
    const auto microbatches = stages * static_cast<int>(random.between(1, 4));
    const int group = random.below(2) == 0 ? stages : microbatches;
    SCOPED_TRACE(str("seed ", seed, ": ", stages, " stages, ", microbatches, " microbatches, ",
                     chunks, " chunks in groups of ", group));
    const int virtual_stages = stages * chunks;
    std::vector<std::int64_t> passes;
    for (int i = 0; i < 2 * virtual_stages * microbatches; ++i)
      passes.push_back(random.between(0, 70));
    const schedule::Schedule lists =
        schedule::schedule_passes({.modules = {{.name = "chain",
                                                .order = config::PipelineOrder::kInterleaved,
                                                .stages = stages,
                                                .chunks = chunks,
                                                .group = group}},
                                   .edges = {},
                                   .microbatches = microbatches});
    const schedule::PipelineMap map(lists.pipeline);
    const schedule::DependencyGraph graph(lists, map, {});
    RoundOrder order = natural_order(microbatches);
    (void)swap_rounds(order, 0, 20, seed, [](const RoundOrder&) { return 0; });
    const auto cost = [&](int lane, const schedule::Action& pass) {
      const int row =
          pass.chunk * stages + lane + (pass.op == schedule::Op::kForward ? 0 : virtual_stages);
      return Nanoseconds{passes[row * microbatches + order[pass.microbatch]]};
    };
    InterleavedOrder chain(
        {.stages = stages, .microbatches = microbatches, .chunks = chunks, .group = group});
    EXPECT_EQ(Nanoseconds{chain.makespan(passes, order)},
              makespan_of(graph, {.action = cost, .hop = {}}));
    const std::vector<double> one(static_cast<std::size_t>(chunks), 1);
    EXPECT_EQ(chain.max_kept(one), lists.in_flight[map.lane_of({0, 0, 0})]);
  }
}

TEST(RoundOrders, StartWhereTheRulesSay) {
  const std::vector<double> encoder = {4, 1, 30, 6, 3};
  const std::vector<double> backbone = {5, 2, 3, 6, 1};
  const std::vector<RoundOrder> orders = starting_orders(encoder, backbone, 3);
  EXPECT_EQ(orders.at(0), (RoundOrder{0, 1, 2, 3, 4}));
  EXPECT_EQ(orders.at(1), (RoundOrder{3, 0, 2, 1, 4}));
  // Less of the encoder: 1 and 0; the others by the backbone.
  EXPECT_EQ(orders.at(2), (RoundOrder{1, 0, 3, 2, 4}));
  // The least first, the two next ones last.
  EXPECT_EQ(orders.at(3), (RoundOrder{1, 2, 3, 4, 0}));
  EXPECT_EQ(starting_orders(std::vector<double>{1}, std::vector<double>{1}, 3).size(), 1U);
}

TEST(RoundOrders, SwapOnlyToNoLongerTimes) {
  const std::vector<std::int64_t> work = {7, 3, 9, 1, 5, 8, 2};
  // Work weighs by how late it comes, so that descending is best.
  const auto time_of = [&](const RoundOrder& order) {
    std::int64_t time = 0;
    for (std::size_t at = 0; at < order.size(); ++at)
      time += static_cast<std::int64_t>(at) * work[static_cast<std::size_t>(order[at])];
    return time;
  };
  RoundOrder order = natural_order(7);
  const std::int64_t natural = time_of(order);
  const std::int64_t found = swap_rounds(order, natural, 500, 1, time_of);
  EXPECT_EQ(found, time_of(order));
  EXPECT_LT(found, natural);
  EXPECT_EQ(order, (RoundOrder{2, 5, 0, 4, 1, 6, 3}));
}

}  // namespace
}  // namespace tributary::studies
