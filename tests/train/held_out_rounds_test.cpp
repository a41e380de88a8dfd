#include "train/validation/held_out_rounds.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "core/text.h"

namespace tributary::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::vector<std::vector<std::int64_t>>> positions(
    const std::vector<HeldOutRound>& rounds) {
  std::vector<std::vector<std::vector<std::int64_t>>> all;
  for (const HeldOutRound& round : rounds) all.push_back(round.positions);
  return all;
}

TEST(DealRounds, GivesOneReplicaPacksInTheOrderOfTheSource) {
  const std::vector<std::int64_t> tokens{40, 50, 0, 20, 90, 120, 10};
  EXPECT_THAT(positions(deal_rounds(tokens, /*replicas=*/1, /*capacity=*/100)),
              ElementsAre(ElementsAre(ElementsAre(0, 1)), ElementsAre(ElementsAre(3)),
                          ElementsAre(ElementsAre(4)), ElementsAre(ElementsAre(5)),
                          ElementsAre(ElementsAre(6))));
}

TEST(DealRounds, GivesEachSampleToTheReplicaWithTheFewestTokens) {
  const std::vector<std::int64_t> tokens{40, 10, 20, 30, 60};
  EXPECT_THAT(positions(deal_rounds(tokens, /*replicas=*/2, /*capacity=*/100)),
              ElementsAre(ElementsAre(ElementsAre(0, 4), ElementsAre(1, 2, 3))));
}

TEST(DealRounds, LeavesAReplicaWithoutSamplesWhereThereAreFewer) {
  EXPECT_THAT(positions(deal_rounds(std::vector<std::int64_t>{7}, 3, 100)),
              ElementsAre(ElementsAre(ElementsAre(0), IsEmpty(), IsEmpty())));
  EXPECT_THAT(deal_rounds(std::vector<std::int64_t>{0, 0}, 3, 100), IsEmpty());
}

TEST(DealRounds, TakesEverySampleOnceAndKeepsToTheCapacity) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    std::mt19937 random(seed);
    std::vector<std::int64_t> tokens(random() % 60);
    for (std::int64_t& size : tokens) size = static_cast<std::int64_t>(random() % 130);
    const std::int64_t replicas = 1 + random() % 5;
    std::vector<std::int64_t> seen;
    for (const HeldOutRound& round : deal_rounds(tokens, replicas, /*capacity=*/100)) {
      ASSERT_EQ(std::ssize(round.positions), replicas);
      for (const std::vector<std::int64_t>& own : round.positions) {
        EXPECT_TRUE(std::ranges::is_sorted(own));
        std::int64_t sum = 0;
        for (const std::int64_t i : own) sum += tokens[static_cast<std::size_t>(i)];
        EXPECT_TRUE(sum <= 100 || own.size() == 1) << sum;
        seen.insert(seen.end(), own.begin(), own.end());
      }
    }
    std::ranges::sort(seen);
    std::vector<std::int64_t> wanted;
    for (std::int64_t i = 0; i < std::ssize(tokens); ++i)
      if (tokens[static_cast<std::size_t>(i)] > 0) wanted.push_back(i);
    EXPECT_EQ(seen, wanted);
  }
}

}  // namespace
}  // namespace tributary::train
