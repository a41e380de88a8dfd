#include "schedule/dispatch_bins.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "schedule/best_fit.h"
#include "tests/schedule/packing_oracle.h"

namespace tributary::schedule {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Numbers = std::vector<std::int64_t>;

Numbers sums(const Numbers& costs, const std::vector<std::int32_t>& replica_of, std::int64_t size) {
  Numbers sums(static_cast<std::size_t>(size));
  for (std::size_t bin = 0; bin < costs.size(); ++bin) sums.at(replica_of[bin]) += costs[bin];
  return sums;
}

Numbers counts(const std::vector<std::int32_t>& replica_of, std::int64_t size) {
  return sums(Numbers(replica_of.size(), 1), replica_of, size);
}

/// The sum over slots of the costliest bin, when every replica runs its bins costliest first.
std::int64_t sum_of_slots(const Numbers& costs, const std::vector<std::int32_t>& replica_of,
                          std::int64_t replicas) {
  std::vector<Numbers> bins(static_cast<std::size_t>(replicas));
  for (std::size_t bin = 0; bin < costs.size(); ++bin) bins[replica_of[bin]].push_back(costs[bin]);
  Numbers slots(costs.size());
  for (Numbers& mine : bins) {
    std::sort(mine.begin(), mine.end(), std::greater<>());
    for (std::size_t slot = 0; slot < mine.size(); ++slot) {
      slots[slot] = std::max(slots[slot], mine[slot]);
    }
  }
  return std::accumulate(slots.begin(), slots.end(), std::int64_t{0});
}

/// Calls `judge` with every way to deal the bins so that no two counts differ by more than one.
template <class Judge>
void for_each_even_deal(std::size_t bins, std::int64_t replicas, const Judge& judge) {
  std::vector<std::int32_t> replica_of(bins);
  while (true) {
    const Numbers count = counts(replica_of, replicas);
    const auto [min, max] = std::minmax_element(count.begin(), count.end());
    if (*max - *min <= 1) judge(replica_of);
    std::size_t bin = 0;
    while (bin < bins && ++replica_of[bin] == replicas) replica_of[bin++] = 0;
    if (bin == bins) return;
  }
}

const Numbers kNine = {20, 11, 10, 9, 8, 8, 7, 6, 3};

TEST(DispatchBins, GivesTheGoldenSums) {
  EXPECT_THAT(sums(kNine, dispatch_bins(kNine, 3, Meeting::kMicrobatch), 3),
              ElementsAre(35, 25, 22));
  const std::vector<std::int32_t> by_sum = dispatch_bins(kNine, 3, Meeting::kStep);
  EXPECT_THAT(sums(kNine, by_sum, 3), ElementsAre(29, 27, 26));
  EXPECT_THAT(counts(by_sum, 3), ElementsAre(3, 3, 3));
  EXPECT_EQ(sum_of_slots(kNine, dispatch_bins(kNine, 3, Meeting::kMicrobatch), 3), 36);
}

TEST(DispatchBins, ComparesWithEveryEvenDeal) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "dispatch");
    const std::int64_t replicas = random.between(1, 3);
    Numbers costs(static_cast<std::size_t>(random.between(0, 8)));
    for (std::int64_t& cost : costs) cost = random.between(0, 30);
    std::int64_t min_sum = std::numeric_limits<std::int64_t>::max();
    std::int64_t min_slots = min_sum;
    for_each_even_deal(costs.size(), replicas, [&](const std::vector<std::int32_t>& deal) {
      const Numbers loads = sums(costs, deal, replicas);
      min_sum = std::min(min_sum, *std::max_element(loads.begin(), loads.end()));
      min_slots = std::min(min_slots, sum_of_slots(costs, deal, replicas));
    });
    const std::vector<std::int32_t> by_slot = dispatch_bins(costs, replicas, Meeting::kMicrobatch);
    EXPECT_EQ(sum_of_slots(costs, by_slot, replicas), min_slots);
    const std::vector<std::int32_t> by_sum = dispatch_bins(costs, replicas, Meeting::kStep);
    const Numbers loads = sums(costs, by_sum, replicas);
    const std::int64_t max = *std::max_element(loads.begin(), loads.end());
    EXPECT_GE(max, min_sum);
    EXPECT_LE(3 * max, 5 * min_sum);
    for (const auto& deal : {by_slot, by_sum}) {
      const Numbers count = counts(deal, replicas);
      const auto [fewest, largest] = std::minmax_element(count.begin(), count.end());
      EXPECT_LE(*largest - *fewest, 1);
    }
  }
}

TEST(DispatchBins, GivesTiesToTheLowest) {
  EXPECT_THAT(dispatch_bins(Numbers{5, 5, 5, 5}, 2, Meeting::kStep), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(dispatch_bins(Numbers{5, 5, 5, 5}, 2, Meeting::kMicrobatch), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(dispatch_bins(Numbers{5}, 3, Meeting::kStep), ElementsAre(0));
}

TEST(CostOfBins, AddsLinearAndQuadraticParts) {
  const std::vector<Tokens> lengths = tokens({3, 4, 2});
  const PackedBins packed = {.first = {0, 2, 3}, .items = {0, 1, 2}};
  EXPECT_THAT(cost_of_bins(packed, lengths, {}), ElementsAre(7, 2));
  EXPECT_THAT(cost_of_bins(packed, lengths, {.per_token = 10, .per_token_pair = 0.5, .fixed = 100}),
              ElementsAre(183, 122));  // 182.5 is rounded away from 0
}

TEST(SplitToMultiple, SplitsTheCostliestBinsUntilReplicasAreEven) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "split");
    const std::vector<Tokens> lengths = random_lengths(random, random.between(1, 60), 400);
    const PackedBins packed = pack_decreasing(lengths, {1000});
    const std::int64_t replicas = random.between(1, 9);
    const PackedBins even = split_to_multiple(packed, lengths, {.per_token_pair = 0.01}, replicas);
    std::vector<std::int32_t> items = even.items;
    std::sort(items.begin(), items.end());
    for (std::size_t item = 0; item < items.size(); ++item) EXPECT_EQ(items[item], item);
    EXPECT_EQ(items.size(), lengths.size());
    bool could_go_on = false;
    for (std::int64_t bin = 0; bin < even.bins(); ++bin) {
      EXPECT_FALSE(even.bin(bin).empty());
      could_go_on = could_go_on || even.bin(bin).size() > 1;
    }
    EXPECT_TRUE(even.bins() % replicas == 0 || !could_go_on);
    EXPECT_LT(even.bins() - packed.bins(), replicas);
  }
}

TEST(SplitToMultiple, PutsTheLongestFirstIntoTheLighterHalf) {
  const std::vector<Tokens> lengths = tokens({5, 9, 6, 2, 20});
  const PackedBins packed = {.first = {0, 1, 5}, .items = {4, 0, 1, 2, 3}};
  // 22 tokens cost more than 20: 9 | 6, 5 | 2 to the half with 9.
  const PackedBins even = split_to_multiple(packed, lengths, {}, 3);
  EXPECT_EQ(lengths_of(even, lengths), (Bins{{20}, {9, 2}, {5, 6}}));
}

TEST(DispatchBins, RefusesWhatCannotBe) {
  EXPECT_THAT([] { (void)dispatch_bins(kNine, 0, Meeting::kStep); },
              ThrowsMessage<Error>(HasSubstr("number of replicas out of range; found: 0")));
  EXPECT_THAT(
      [] {
        (void)dispatch_bins(Numbers{3, -1}, 2, Meeting::kStep);
      },
      ThrowsMessage<Error>(HasSubstr("cost of a bin below 0; where: bin 1; found: -1")));
  const std::vector<Tokens> lengths = tokens({3});
  const PackedBins packed = {.first = {0, 1}, .items = {0}};
  EXPECT_THAT([&] { (void)cost_of_bins(packed, lengths, {.per_token = -1}); },
              ThrowsMessage<Error>(HasSubstr("cost coefficient out of range; found: -1")));
  EXPECT_THAT([&] { (void)cost_of_bins(packed, lengths, {.per_token = 1e15}); },
              ThrowsMessage<Error>(HasSubstr("cost of a bin out of range; where: bin 0")));
  EXPECT_THAT([&] { (void)split_to_multiple(packed, lengths, {}, 0); },
              ThrowsMessage<Error>(HasSubstr("number of replicas out of range")));
}

}  // namespace
}  // namespace tributary::schedule
