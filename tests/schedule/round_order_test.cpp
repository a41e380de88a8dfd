#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "core/random.h"
#include "schedule/pipeline/time_schedule.h"
#include "schedule/step_plan.h"
#include "tests/schedule/pipeline/random_pipeline.h"

namespace tributary::schedule {
namespace {

using Order = std::vector<std::int64_t>;  // [rounds] in which they run

Order costliest_first(std::int64_t rounds) {
  Order order(static_cast<std::size_t>(rounds));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Order by_places(std::int64_t rounds) {
  Order order(static_cast<std::size_t>(rounds), -1);
  for (std::int64_t nth = 0; nth < rounds; ++nth) order[place_of_round(nth, rounds)] = nth;
  return order;
}

TEST(PlaceOfRound, PutsTheCostliestInTheMiddleAndTheLeastLast) {
  using testing::ElementsAre;
  EXPECT_THAT(by_places(1), ElementsAre(0));
  EXPECT_THAT(by_places(2), ElementsAre(0, 1));
  EXPECT_THAT(by_places(5), ElementsAre(3, 1, 0, 2, 4));
  EXPECT_THAT(by_places(6), ElementsAre(4, 2, 0, 1, 3, 5));
  for (std::int64_t rounds = 1; rounds <= 40; ++rounds) {
    EXPECT_THAT(by_places(rounds), testing::UnorderedElementsAreArray(costliest_first(rounds)));
    EXPECT_EQ(by_places(rounds).back(), rounds - 1);
  }
}

/// A pipeline whose rounds cost differently, by up to a half, on stages that are about alike.
class UnevenRounds {
 public:
  UnevenRounds(config::PipelineOrder order, int stages, int rounds, std::uint64_t seed)
      : schedule_(schedule_passes(make_pipeline(order, stages, rounds))),
        map_(schedule_.pipeline),
        graph_(schedule_, map_, {}) {
    RandomStream random(seed, "rounds");
    for (int round = 0; round < rounds; ++round) costs_.push_back(random.between(1000, 1500));
    std::ranges::sort(costs_, std::greater<>());
    for (int each = 0; each < stages * rounds; ++each) apart_.push_back(random.between(-20, 20));
  }

  [[nodiscard]] double time(const Order& order) const {
    const auto cost = [&](int lane, const Action& action) {
      const std::int64_t round = order[action.microbatch];
      const std::int64_t forward = costs_[round] + apart_[lane * std::ssize(costs_) + round];
      return Nanoseconds{action.op == Op::kBackward ? 2 * forward : forward};
    };
    return static_cast<double>(makespan_of(graph_, {.action = cost, .hop = {}}).count);
  }

  [[nodiscard]] double best() const {
    Order order = costliest_first(std::ssize(costs_));
    double min = time(order);
    while (std::ranges::next_permutation(order).found) min = std::min(min, time(order));
    return min;
  }

 private:
  Schedule schedule_;
  PipelineMap map_;
  DependencyGraph graph_;
  std::vector<std::int64_t> costs_;
  std::vector<std::int64_t> apart_;  // [stages, rounds]
};

/// Against all orders; no other start of docs/theory/planning.md, "Order of rounds" is as near.
TEST(PlaceOfRound, IsNearTheBestOfAllOrders) {
  double places = 0;
  double natural = 0;
  int cases = 0;
  for (const int stages : {2, 3, 4}) {
    for (const int rounds : {2, 4, 6, 7}) {
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        const UnevenRounds pipeline(config::PipelineOrder::k1f1b, stages, rounds, seed);
        const double best = pipeline.best();
        const double excess = pipeline.time(by_places(rounds)) / best - 1;
        EXPECT_LT(excess, 0.03) << stages << " stages, " << rounds << " rounds, seed " << seed;
        places += excess;
        natural += pipeline.time(costliest_first(rounds)) / best - 1;
        ++cases;
      }
    }
  }
  EXPECT_LT(places, 0.01 * cases);
  EXPECT_LT(places, 0.3 * natural);
}

}  // namespace
}  // namespace tributary::schedule
