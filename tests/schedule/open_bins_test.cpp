#include "schedule/open_bins.h"

#include <gtest/gtest.h>
#include <set>
#include <tuple>

#include "core/random.h"

namespace tributary::schedule {
namespace {

TEST(OpenBins, GivesTheOldestBinOfTheLeastRoom) {
  OpenBins open(100);
  open.insert(0, 50, /*age=*/7);
  open.insert(1, 30, /*age=*/9);
  open.insert(2, 30, /*age=*/8);
  EXPECT_EQ(open.take_best(20), 2);
  EXPECT_EQ(open.take_best(20), 1);
  EXPECT_EQ(open.take_best(51), OpenBins::kNone);
  EXPECT_EQ(open.take_best(50), 0);
  EXPECT_EQ(open.take_best(1), OpenBins::kNone);
}

TEST(OpenBins, FindsTheEdgesOfItsWords) {
  for (const std::int64_t capacity : {1, 63, 64, 65, 4095, 4096, 262143, 262144, 300000}) {
    OpenBins open(capacity);
    open.insert(0, capacity, 0);
    open.insert(1, 0, 1);
    EXPECT_EQ(open.take_best(1), 0) << capacity;
    EXPECT_EQ(open.take_best(1), OpenBins::kNone) << capacity;
    EXPECT_EQ(open.take_best(0), 1) << capacity;
  }
}

TEST(OpenBins, EqualsAnOrderedSetOnRandomOperations) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "open bins");
    const std::int64_t capacity = random.between(1, 1 << random.between(1, 15));
    OpenBins open(capacity);
    std::set<std::tuple<std::int64_t, std::int64_t, std::int32_t>> expected;  // room, age, bin
    std::vector<std::int32_t> outside(200);
    for (std::int32_t bin = 0; bin < 200; ++bin) outside[bin] = bin;
    for (int step = 0; step < 2000; ++step) {
      if (!outside.empty() && random.below(2) == 0) {
        std::swap(random.pick(std::span(outside)), outside.back());
        // Few values, so that many bins have the same room.
        const std::int64_t room = capacity - random.between(0, std::min<std::int64_t>(capacity, 5));
        const std::int64_t age = std::int64_t(random.below(1000)) * 200 + outside.back();
        open.insert(outside.back(), room, age);
        expected.insert({room, age, outside.back()});
        outside.pop_back();
      } else {
        const std::int64_t length =
            capacity - random.between(0, std::min<std::int64_t>(capacity, 6));
        const auto best = expected.lower_bound({length, -1, -1});
        const std::int32_t bin = open.take_best(length);
        ASSERT_EQ(bin, best == expected.end() ? OpenBins::kNone : std::get<2>(*best));
        if (best == expected.end()) continue;
        expected.erase(best);
        outside.push_back(bin);
      }
    }
  }
}

}  // namespace
}  // namespace tributary::schedule
