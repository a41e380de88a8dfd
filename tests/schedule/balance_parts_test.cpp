#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/balance/balance_bound.h"
#include "schedule/balance/branch_and_bound.h"
#include "schedule/balance/ejection_chain.h"
#include "schedule/balance/exchange.h"
#include "schedule/balance/local_search.h"
#include "schedule/balance/lower_excess.h"
#include "schedule/balance/place_longest_first.h"
#include "tests/schedule/balance_oracle.h"

namespace tributary::schedule {
namespace {

const OwnedProblem kEight = {
    .buckets = 3, .dimensions = 2, .loads = {7, 3, 1, 8, 9, 2, 2, 9, 5, 5, 4, 6, 8, 1, 3, 7}};

std::int64_t value_of(const Partition& partition) { return partition.value(partition.worst()); }

TEST(BalanceBound, KnowsMeanLargestAndMeetings) {
  const auto bound = [](std::int64_t buckets, std::vector<std::int64_t> loads) {
    return balance_bound({.buckets = buckets, .dimensions = 1, .loads = loads});
  };
  EXPECT_EQ(bound(2, {3, 3, 1}), 4);         // mean 3.5
  EXPECT_EQ(bound(4, {90, 11, 7, 3}), 90);   // the largest
  EXPECT_EQ(bound(3, {10, 10, 9, 9}), 18);   // two of four meet
  EXPECT_EQ(bound(2, {7, 7, 7, 7, 7}), 21);  // three of five meet
  EXPECT_EQ(bound(5, {}), 0);
  EXPECT_EQ(bound(5, {0, 0}), 0);
  EXPECT_EQ(bound(1, {5, 6, 7}), 18);
}

TEST(BalanceBound, RoundsTheMeanUpToAWholeUnit) {
  // 22 units of about 100 over 4 buckets: one of them holds 6, and each unit weighs 99 at least.
  const std::vector<std::int64_t> loads = {199, 201, 301, 100, 99, 399, 500, 300, 100};
  EXPECT_EQ(balance_bound({.buckets = 4, .dimensions = 1, .loads = loads}), 6 * 99);
}

TEST(BalanceBound, IsNeverAboveTheLeastValue) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "bound");
    OwnedProblem problem = random_problem(random, random.between(1, 7), random.between(1, 4),
                                          random.between(1, 2), random.between(1, 12));
    // Multiples of a unit, each off by a little: where the rounding bites.
    const std::int64_t unit = random.between(1, 50);
    for (std::int64_t& load : problem.loads) load = load * unit + random.between(0, unit / 10);
    EXPECT_LE(balance_bound(problem.view()), min_value(problem));
  }
}

TEST(PlaceLongestFirst, GivesTheGoldenArrangement) {
  Partition partition(kEight.view());
  place_longest_first(partition);
  EXPECT_EQ(value_of(partition), 17);
}

/// The rule as its sentence says, by looking at every bucket.
std::vector<std::int64_t> values_by_search(const Partition& order) {
  const std::int32_t dimensions = order.dimensions();
  std::vector<std::vector<std::int64_t>> loads(order.buckets(),
                                               std::vector<std::int64_t>(dimensions));
  for (std::int32_t item = 0; item < order.items(); ++item) {
    std::tuple<std::int64_t, std::int64_t, std::int32_t> best = {
        std::numeric_limits<std::int64_t>::max(), 0, 0};
    for (std::int32_t bucket = 0; bucket < order.buckets(); ++bucket) {
      std::int64_t value = 0;
      std::int64_t sum = 0;
      for (std::int32_t d = 0; d < dimensions; ++d) {
        value = std::max(value, loads[bucket][d] + order.item(item)[d]);
        sum += loads[bucket][d];
      }
      best = std::min(best, {value, sum, bucket});
    }
    for (std::int32_t d = 0; d < dimensions; ++d) {
      loads[std::get<2>(best)][d] += order.item(item)[d];
    }
  }
  std::vector<std::int64_t> values;
  for (const auto& bucket : loads)
    values.push_back(*std::max_element(bucket.begin(), bucket.end()));
  return values;
}

TEST(PlaceLongestFirst, EqualsASearchOfAllBuckets) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "longest first");
    OwnedProblem problem = random_problem(random, random.between(1, 60), random.between(1, 12),
                                          random.between(1, 3), random.between(3, 1000));
    for (std::int64_t& load : problem.loads) ++load;  // no bucket is left for the empty-bucket rule
    Partition partition(problem.view());
    const std::vector<std::int64_t> expected = values_by_search(partition);
    place_longest_first(partition);
    for (std::int32_t bucket = 0; bucket < partition.buckets(); ++bucket) {
      EXPECT_EQ(partition.value(bucket), expected[bucket]);
    }
  }
}

TEST(PlaceLongestFirst, StaysWithinItsProvenDistanceWithManyBuckets) {
  // More buckets than candidates. One dimension: at most 4/3 of the optimum (Graham).
  RandomStream random(1, "many buckets");
  const OwnedProblem problem = random_problem(random, 9000, 3000, 1, 1'000'000);
  Partition partition(problem.view());
  place_longest_first(partition);
  EXPECT_LE(3 * value_of(partition), 4 * balance_bound(problem.view()));
}

/// The least value of the two buckets over all moves and exchanges with the worst one.
std::int64_t best_exchange_by_search(const Partition& partition, std::int32_t worst) {
  std::int64_t best = partition.value(worst);
  const auto larger = [&](std::int32_t given, const std::int64_t* taken, std::int32_t bucket) {
    const std::int64_t* load = partition.item(given);
    return std::max(value_after(partition, worst, taken, load),
                    value_after(partition, bucket, load, taken));
  };
  for (const std::int32_t given : partition.members(worst)) {
    for (std::int32_t bucket = 0; bucket < partition.buckets(); ++bucket) {
      if (bucket == worst) continue;
      best = std::min(best, larger(given, nullptr, bucket));
      for (const std::int32_t taken : partition.members(bucket)) {
        best = std::min(best, larger(given, partition.item(taken), bucket));
      }
    }
  }
  return best;
}

TEST(Exchange, IsTheBestOfAllExchanges) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "exchange");
    const OwnedProblem problem = random_problem(random, random.between(8, 40), random.between(2, 8),
                                                random.between(1, 3), random.between(5, 5000));
    Partition partition(problem.view());
    for (std::int32_t item = 0; item < partition.items(); ++item) {
      partition.move(item, static_cast<std::int32_t>(random.below(partition.buckets())));
    }
    const std::int32_t worst = partition.worst();
    const BalanceBudget budget;
    Effort effort(budget);
    const Tabu tabu(partition.items());
    const Exchange exchange = find_exchange(partition, worst, partition.value(worst), tabu, effort);
    EXPECT_EQ(exchange.value, best_exchange_by_search(partition, worst));
    if (!exchange.is_found()) continue;
    ++found;
    apply(partition, exchange);
    EXPECT_EQ(std::max(partition.value(worst), partition.value(exchange.bucket)), exchange.value);
  }
  EXPECT_GT(found, 200);
}

TEST(Exchange, LeavesHeldItemsUnlessTheValueIsNew) {
  const OwnedProblem problem = {.buckets = 2, .dimensions = 1, .loads = {5, 4, 3}};
  Partition partition(problem.view());
  for (std::int32_t item = 0; item < 3; ++item) partition.move(item, 0);
  const BalanceBudget budget;
  Effort effort(budget);
  Tabu tabu(3);
  tabu.set_best_value(7);
  EXPECT_EQ(find_exchange(partition, 0, 12, tabu, effort).given, 0);  // 7 | 5
  tabu.hold(0);
  EXPECT_EQ(find_exchange(partition, 0, 12, tabu, effort).given, 1);  // 8 | 4
  tabu.set_best_value(8);
  EXPECT_EQ(find_exchange(partition, 0, 12, tabu, effort).given, 0);
  tabu.set_best_value(7);
  tabu.release();
  EXPECT_EQ(find_exchange(partition, 0, 12, tabu, effort).given, 0);
}

/// The least value of the three buckets over all chains that begin with `given`.
std::int64_t best_chain_by_search(const Partition& partition, std::int32_t worst,
                                  std::int32_t given) {
  std::int64_t best = partition.value(worst);
  const std::int64_t* load = partition.item(given);
  for (std::int32_t ejected = 0; ejected < partition.items(); ++ejected) {
    const std::int32_t second = partition.bucket_of(ejected);
    if (second == worst) continue;
    const std::int64_t* moved = partition.item(ejected);
    const std::int64_t there = value_after(partition, second, load, moved);
    for (std::int32_t third = 0; third < partition.buckets(); ++third) {
      if (third == worst || third == second) continue;
      best = std::min(best, std::max({there, value_after(partition, worst, nullptr, load),
                                      value_after(partition, third, moved, nullptr)}));
      for (const std::int32_t returned : partition.members(third)) {
        const std::int64_t* back = partition.item(returned);
        best = std::min(best, std::max({there, value_after(partition, worst, back, load),
                                        value_after(partition, third, moved, back)}));
      }
    }
  }
  return best;
}

TEST(EjectionChain, IsTheBestChainOfTheFirstItemThatHasOne) {
  int found = 0;
  int closed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "chain");
    const OwnedProblem problem = random_problem(random, random.between(6, 30), random.between(3, 7),
                                                random.between(1, 3), random.between(5, 5000));
    Partition partition(problem.view());
    if (seed % 2 == 0) place_longest_first(partition);
    for (std::int32_t item = 0; item < partition.items() && seed % 2 == 1; ++item) {
      partition.move(item, static_cast<std::int32_t>(random.below(partition.buckets())));
    }
    const std::int32_t worst = partition.worst();
    const std::int64_t value = partition.value(worst);
    std::int64_t expected = value;
    const std::size_t members = partition.members(worst).size();
    for (std::size_t i = 0; i < members && expected == value; ++i) {
      expected = best_chain_by_search(partition, worst, partition.members(worst)[i]);
    }
    const std::vector<std::int32_t> before = partition.assignment();
    const BalanceBudget budget;
    Effort effort(budget);
    ASSERT_EQ(relieve_by_chain(partition, worst, effort), expected < value);
    const std::vector<std::int32_t> after = partition.assignment();
    std::int64_t touched = 0;  // the largest of the buckets that changed
    int moved = 0;
    for (std::size_t item = 0; item < after.size(); ++item) {
      if (after[item] == before[item]) continue;
      ++moved;
      touched = std::max({touched, partition.value(before[item]), partition.value(after[item])});
    }
    EXPECT_EQ(touched, expected < value ? expected : 0);
    found += expected < value ? 1 : 0;
    closed += moved == 3 ? 1 : 0;
  }
  EXPECT_GT(found, 150);
  EXPECT_GT(closed, 20);
}

/// Places every item at random, no bucket empty.
void scatter(Partition& partition, RandomStream& random) {
  for (std::int32_t item = 0; item < partition.items(); ++item)
    partition.move(item, item < partition.buckets()
                             ? item
                             : static_cast<std::int32_t>(random.below(partition.buckets())));
}

/// Whether an exchange of up to two items of the first bucket for up to two of the second brings
/// both to the target.
bool can_trade_by_search(const Partition& partition, std::int64_t target) {
  std::vector<std::vector<std::vector<std::int32_t>>> subsets(2);
  for (const std::int32_t bucket : {0, 1}) {
    const auto members = partition.members(bucket);
    subsets[bucket].push_back({});
    for (const std::int32_t one : members) subsets[bucket].push_back({one});
    for (const std::int32_t one : members)
      for (const std::int32_t other : members)
        if (one < other) subsets[bucket].push_back({one, other});
  }
  for (const auto& given : subsets[0])
    for (const auto& taken : subsets[1]) {
      Partition after = partition;
      for (const std::int32_t item : given) after.move(item, 1);
      for (const std::int32_t item : taken) after.move(item, 0);
      const bool is_any_empty = after.members(0).empty() || after.members(1).empty();
      if (!is_any_empty && value_of(after) <= target) return true;
    }
  return false;
}

TEST(LowerExcess, FindsEveryTradeOfTwoItemsForTwo) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "trade");
    const OwnedProblem problem = random_problem(random, random.between(4, 12), 2,
                                                random.between(1, 3), random.between(5, 500));
    Partition partition(problem.view());
    scatter(partition, random);
    const std::int64_t bound = balance_bound(problem.view());
    const std::int64_t target = bound + random.between(0, bound / 20);
    if (value_of(partition) <= target || !can_trade_by_search(partition, target)) continue;
    ++found;
    const BalanceBudget budget;
    Effort effort(budget);
    EXPECT_TRUE(lower_excess(partition, target, effort));
    EXPECT_LE(value_of(partition), target);
  }
  EXPECT_GT(found, 50);
}

TEST(LowerExcess, EndsAtTheBestArrangementItMet) {
  int reached = 0;
  int missed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "excess");
    const OwnedProblem problem =
        random_problem(random, random.between(20, 120), random.between(1, 16), random.between(1, 3),
                       random.between(1, 3000));
    Partition partition(problem.view());
    scatter(partition, random);
    const std::int64_t before = value_of(partition);
    const std::int64_t bound = balance_bound(problem.view());
    const std::int64_t target = bound + (before - bound) * random.between(0, 2) / 4;
    const BalanceBudget budget = {.evaluations = 30'000};
    Effort effort(budget);
    const bool is_reached = lower_excess(partition, target, effort);
    (is_reached ? reached : missed) += 1;
    EXPECT_EQ(is_reached, value_of(partition) <= target);
    EXPECT_EQ(is_reached || effort.used_up(), true);
    EXPECT_LE(value_of(partition), before);
    EXPECT_EQ(value_of(partition), balance_value(problem.view(), partition.assignment()));
    for (std::int32_t bucket = 0; bucket < partition.buckets(); ++bucket)
      EXPECT_FALSE(partition.members(bucket).empty());
  }
  EXPECT_GT(reached, 50);
  EXPECT_GT(missed, 10);
}

TEST(BranchAndBound, ProvesWhatBruteForceFinds) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "branch and bound");
    const OwnedProblem problem = random_problem(random, random.between(1, 8), random.between(1, 4),
                                                random.between(1, 3), random.between(1, 60));
    Partition partition(problem.view());
    for (std::int32_t item = 0; item < partition.items(); ++item) partition.move(item, 0);
    const BalanceBudget budget;
    Effort effort(budget);
    EXPECT_TRUE(branch_and_bound(partition, balance_bound(problem.view()), effort));
    EXPECT_EQ(value_of(partition), min_value(problem));
  }
}

TEST(BranchAndBound, SaysWhenItWasCutShort) {
  RandomStream random(3, "cut short");
  const OwnedProblem problem = random_problem(random, 24, 5, 2, 1'000'000);
  Partition partition(problem.view());
  place_longest_first(partition);
  const std::int64_t before = value_of(partition);
  const BalanceBudget budget = {.evaluations = 500};
  Effort effort(budget);
  EXPECT_FALSE(branch_and_bound(partition, balance_bound(problem.view()), effort));
  EXPECT_LE(value_of(partition), before);
  EXPECT_EQ(value_of(partition), balance_value(problem.view(), partition.assignment()));
}

TEST(LocalSearch, ReachesTheGoldenValues) {
  Partition partition(kEight.view());
  place_longest_first(partition);
  const BalanceBudget budget;
  Effort effort(budget);
  (void)search_locally(partition, /*enough=*/15, effort);
  EXPECT_EQ(value_of(partition), 15);
}

}  // namespace
}  // namespace tributary::schedule
