#include "schedule/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "schedule/best_fit.h"
#include "schedule/pack_online.h"
#include "schedule/packing_bound.h"
#include "tests/schedule/packing_oracle.h"

namespace tributary::schedule {
namespace {

using config::Packing;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<Tokens> kTwelve = tokens({30, 45, 60, 20, 70, 35, 50, 25, 40, 55, 15, 65});

TEST(PackOnline, GivesTheGoldenBins) {
  EXPECT_EQ(lengths_of(pack_online(kTwelve, {100}), kTwelve),
            (Bins{{30, 45, 20}, {60, 35}, {70, 25}, {50, 40}, {55, 15}, {65}}));
}

TEST(PackDecreasing, GivesTheGoldenBins) {
  EXPECT_EQ(lengths_of(pack_decreasing(kTwelve, {100}), kTwelve),
            (Bins{{70, 30}, {65, 35}, {60, 40}, {55, 45}, {50, 25, 20}, {15}}));
  const std::vector<Tokens> ten = tokens({44, 24, 24, 22, 21, 17, 8, 8, 6, 6});
  EXPECT_EQ(pack_decreasing(ten, {61}).bins(), 4);
}

TEST(Pack, EqualsASearchOfAllBins) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "pack");
    const Tokens capacity = {random.between(1, 1 << random.between(1, 13))};
    std::vector<Tokens> lengths =
        random_lengths(random, random.between(0, 200), random.between(1, capacity.count));
    EXPECT_EQ(lengths_of(pack_online(lengths, capacity), lengths),
              best_fit_by_search(lengths, capacity));
    const PackedBins decreasing = pack_decreasing(lengths, capacity);
    const Bins found = lengths_of(decreasing, lengths);
    std::stable_sort(lengths.begin(), lengths.end(), std::greater<>());
    EXPECT_EQ(found, best_fit_by_search(lengths, capacity));
  }
}

TEST(PackWindows, PacksEachWindowByItself) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "windows");
    const Tokens capacity = {random.between(1, 1000)};
    const std::vector<Tokens> lengths =
        random_lengths(random, random.between(0, 200), random.between(1, capacity.count));
    const std::int64_t window = random.between(1, 250);
    for (const Packing rule : {Packing::kNone, Packing::kBestFitDecreasing}) {
      Bins expected;
      for (std::size_t begin = 0; begin < lengths.size(); begin += window) {
        const std::size_t end = std::min(lengths.size(), begin + window);
        const std::vector<Tokens> part(lengths.begin() + begin, lengths.begin() + end);
        for (const auto& bin : lengths_of(pack(rule, part, capacity), part))
          expected.push_back(bin);
      }
      EXPECT_EQ(lengths_of(pack_windows(rule, lengths, capacity, window), lengths), expected);
    }
  }
}

TEST(PackWindows, ClosesABinOfAStreamByItsAge) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "ages");
    const Tokens capacity = {random.between(1, 1000)};
    const std::vector<Tokens> lengths =
        random_lengths(random, random.between(1, 200), random.between(1, capacity.count));
    const std::int64_t window = random.between(1, 60);
    // Every arrival looks at all bins that are young enough: fullest first, then the oldest.
    std::vector<std::vector<std::int32_t>> bins;
    std::vector<std::int64_t> used;
    for (std::size_t item = 0; item < lengths.size(); ++item) {
      std::size_t best = bins.size();
      for (std::size_t bin = 0; bin < bins.size(); ++bin) {
        const bool is_open = static_cast<std::int64_t>(item) - bins[bin].front() <= window;
        if (!is_open || used[bin] + lengths[item].count > capacity.count) continue;
        if (best == bins.size() || used[bin] > used[best]) best = bin;
      }
      if (best == bins.size()) {
        bins.emplace_back();
        used.push_back(0);
      }
      bins[best].push_back(static_cast<std::int32_t>(item));
      used[best] += lengths[item].count;
    }
    const PackedBins found = pack_windows(Packing::kOnlineBestFit, lengths, capacity, window);
    ASSERT_EQ(found.bins(), std::ssize(bins));
    for (std::int64_t bin = 0; bin < found.bins(); ++bin) {
      EXPECT_THAT(found.bin(bin), testing::ElementsAreArray(bins[bin]));
    }
  }
}

TEST(PackWindows, TheWholeListIsOneWindow) {
  for (const Packing rule :
       {Packing::kNone, Packing::kOnlineBestFit, Packing::kBestFitDecreasing}) {
    const Bins expected = lengths_of(pack(rule, kTwelve, {100}), kTwelve);
    for (const std::int64_t window : {0, 12, 1000})
      EXPECT_EQ(lengths_of(pack_windows(rule, kTwelve, {100}, window), kTwelve), expected);
  }
  EXPECT_THAT([] { (void)pack_windows(Packing::kNone, kTwelve, {100}, -1); },
              ThrowsMessage<Error>(HasSubstr("window below 0; where: window; found: -1 samples")));
}

TEST(Pack, KeepsEachItemOnceAndEachBinBelowItsCapacity) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "invariants");
    const Tokens capacity = {random.between(1, 40000)};
    const std::vector<Tokens> lengths =
        random_lengths(random, random.between(0, 600), random.between(1, capacity.count));
    for (const Packing rule :
         {Packing::kNone, Packing::kOnlineBestFit, Packing::kBestFitDecreasing}) {
      const PackedBins packed = pack(rule, lengths, capacity);
      std::vector<int> times(lengths.size());
      int half_empty = 0;
      for (std::int64_t bin = 0; bin < packed.bins(); ++bin) {
        Tokens used;
        for (const std::int32_t item : packed.bin(bin)) {
          ++times[item];
          used += lengths[item];
        }
        EXPECT_GT(used, Tokens{0});
        EXPECT_LE(used, capacity);
        half_empty += (used * 2 <= capacity) ? 1 : 0;
      }
      EXPECT_EQ(std::count(times.begin(), times.end(), 1), std::ssize(times));
      EXPECT_GE(packed.bins(), packing_bound(lengths, capacity));
      if (rule == Packing::kNone) {
        EXPECT_EQ(packed.bins(), std::ssize(lengths));
      } else {
        EXPECT_LE(half_empty, 1);
      }
    }
  }
}

TEST(Pack, StaysWithinItsProvenDistanceOfTheFewestBins) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "brute force");
    const Tokens capacity = {random.between(4, 30)};
    const std::vector<Tokens> lengths =
        random_lengths(random, random.between(1, 8), capacity.count);
    const std::int64_t fewest = fewest_bins(lengths, capacity);
    EXPECT_LE(packing_bound(lengths, capacity), fewest);
    EXPECT_GE(3 * packing_bound(lengths, capacity), 2 * fewest);
    EXPECT_GE(pack_online(lengths, capacity).bins(), fewest);
    EXPECT_LE(10 * pack_online(lengths, capacity).bins(), 17 * fewest);
    EXPECT_GE(pack_decreasing(lengths, capacity).bins(), fewest);
    EXPECT_LE(9 * pack_decreasing(lengths, capacity).bins(), 11 * fewest + 6);
  }
}

TEST(Pack, PutsTheFirstOfEqualItemsFirst) {
  const PackedBins packed = pack_decreasing(tokens({5, 7, 5, 7}), {12});
  EXPECT_EQ(packed.items, (std::vector<std::int32_t>{1, 0, 3, 2}));
  EXPECT_EQ(packed.first, (std::vector<std::int32_t>{0, 2, 4}));
}

TEST(Pack, TakesNothing) {
  for (const Packing rule :
       {Packing::kNone, Packing::kOnlineBestFit, Packing::kBestFitDecreasing}) {
    EXPECT_EQ(pack(rule, {}, {8}).bins(), 0);
  }
}

TEST(Pack, NamesTheItemThatIsTooLong) {
  for (const Packing rule :
       {Packing::kNone, Packing::kOnlineBestFit, Packing::kBestFitDecreasing}) {
    EXPECT_THAT(
        [&] {
          (void)pack(rule, tokens({3, 9, 4}), {8});
        },
        ThrowsMessage<Error>(HasSubstr("sample does not fit into a bin; where: item 1; "
                                       "found: 9 tokens; expected: 1 to 8 tokens")));
    EXPECT_THAT(
        [&] {
          (void)pack(rule, tokens({3, 0}), {8});
        },
        ThrowsMessage<Error>(HasSubstr("item 1; found: 0 tokens")));
    EXPECT_THAT([&] { (void)pack(rule, {}, {0}); },
                ThrowsMessage<Error>(HasSubstr("packing capacity out of range; found: 0 tokens")));
    EXPECT_THAT([&] { (void)pack(rule, {}, {(1 << 26) + 1}); },
                ThrowsMessage<Error>(HasSubstr("found: 67108865 tokens")));
  }
}

TEST(MeasureFill, CountsTokensAndPadding) {
  const PackingFill fill = measure_fill(pack_online(kTwelve, {100}), kTwelve, {100});
  EXPECT_EQ(fill.bins, 6);
  EXPECT_EQ(fill.tokens, Tokens{510});
  EXPECT_EQ(fill.padding, Tokens{90});
  EXPECT_DOUBLE_EQ(fill.share, 0.85);
  EXPECT_DOUBLE_EQ(measure_fill(pack_online({}, {100}), {}, {100}).share, 1.0);
}

}  // namespace
}  // namespace tributary::schedule
