#include "schedule/pack_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "core/error.h"
#include "schedule/packing_bound.h"
#include "tests/schedule/packing_oracle.h"

namespace tributary::schedule {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Numbers = std::vector<std::int64_t>;

struct OwnedItems {
  Numbers needs;
  Numbers capacities;

  [[nodiscard]] VectorItems view() const { return {.needs = needs, .capacities = capacities}; }
};

OwnedItems random_items(RandomStream& random, std::int64_t items, std::int64_t dimensions) {
  OwnedItems drawn;
  for (std::int64_t d = 0; d < dimensions; ++d) drawn.capacities.push_back(random.between(1, 200));
  for (std::int64_t i = 0; i < items * dimensions; ++i) {
    drawn.needs.push_back(random.between(0, drawn.capacities[i % dimensions]));
  }
  return drawn;
}

bool fits(const OwnedItems& items, const Numbers& used, std::size_t item) {
  for (std::size_t d = 0; d < used.size(); ++d) {
    if (used[d] + items.needs[item * used.size() + d] > items.capacities[d]) return false;
  }
  return true;
}

/// The fewest bins, by trying every place for every item.
std::int64_t fewest_vector_bins(const OwnedItems& items, std::size_t item,
                                const std::vector<Numbers>& used) {
  const std::size_t dimensions = items.capacities.size();
  if (item * dimensions == items.needs.size()) return std::ssize(used);
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t bin = 0; bin <= used.size(); ++bin) {
    std::vector<Numbers> next = used;
    if (bin == used.size()) next.emplace_back(dimensions);
    if (!fits(items, next[bin], item)) continue;
    for (std::size_t d = 0; d < dimensions; ++d) {
      next[bin][d] += items.needs[item * dimensions + d];
    }
    fewest = std::min(fewest, fewest_vector_bins(items, item + 1, next));
  }
  return fewest;
}

TEST(PackVector, TakesTheTightestBinWithRoomInEveryDimension) {
  // Tokens to 100, patches to 10. Item 3 fits beside 1 and 2; beside 2 less is left.
  const OwnedItems items = {.needs = {100, 0, 60, 2, 30, 9, 20, 1, 70, 10},
                            .capacities = {100, 10}};
  const PackedBins packed = pack_vector(items.view());
  EXPECT_EQ(packed.items, (std::vector<std::int32_t>{0, 4, 2, 3, 1}));
  EXPECT_EQ(packed.first, (std::vector<std::int32_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(vector_packing_bound(items.view()), 3);
}

TEST(PackVector, KeepsEachItemOnceAndEachBinBelowEveryCapacity) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "vector");
    const OwnedItems items = random_items(random, random.between(0, 150), random.between(1, 4));
    const std::size_t dimensions = items.capacities.size();
    const PackedBins packed = pack_vector(items.view());
    std::vector<int> times(items.needs.size() / dimensions);
    for (std::int64_t bin = 0; bin < packed.bins(); ++bin) {
      Numbers used(dimensions);
      EXPECT_FALSE(packed.bin(bin).empty());
      for (const std::int32_t item : packed.bin(bin)) {
        ++times[item];
        EXPECT_TRUE(fits(items, used, item));
        for (std::size_t d = 0; d < dimensions; ++d) used[d] += items.needs[item * dimensions + d];
      }
    }
    EXPECT_THAT(times, testing::Each(1));
    EXPECT_GE(packed.bins(), vector_packing_bound(items.view()));
  }
}

TEST(PackVector, ComparesWithTheFewestBins) {
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "vector brute force");
    const OwnedItems items = random_items(random, random.between(1, 7), random.between(1, 3));
    const std::int64_t fewest = fewest_vector_bins(items, 0, {});
    const std::int64_t found = pack_vector(items.view()).bins();
    EXPECT_LE(vector_packing_bound(items.view()), fewest);
    EXPECT_GE(found, fewest);
    EXPECT_LE(found, fewest + 1);
    optimal += found == fewest ? 1 : 0;
  }
  EXPECT_GT(optimal, 180);
}

TEST(PackVector, IsBestFitDecreasingInOneDimension) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "one dimension");
    const Tokens capacity = {random.between(1, 1000)};
    std::vector<Tokens> lengths = random_lengths(random, 80, capacity.count);
    OwnedItems items = {.needs = {}, .capacities = {capacity.count}};
    for (const Tokens length : lengths) items.needs.push_back(length.count);
    const Bins found = lengths_of(pack_vector(items.view()), lengths);
    EXPECT_EQ(vector_packing_bound(items.view()), packing_bound(lengths, capacity));
    std::stable_sort(lengths.begin(), lengths.end(), std::greater<>());
    EXPECT_EQ(found, best_fit_by_search(lengths, capacity));
  }
}

TEST(PackVector, RefusesWhatCannotBe) {
  const auto refuses = [](const OwnedItems& items, const std::string& words) {
    EXPECT_THAT([&] { (void)pack_vector(items.view()); }, ThrowsMessage<Error>(HasSubstr(words)));
    EXPECT_THAT([&] { (void)vector_packing_bound(items.view()); },
                ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses({.needs = {1, 2, 3}, .capacities = {5, 5}}, "no whole rows; found: 3 needs in 2");
  refuses({.needs = {}, .capacities = {}}, "0 needs in 0 dimensions");
  refuses({.needs = {1, 2}, .capacities = {5, 0}}, "capacity out of range; where: dimension 1");
  refuses({.needs = {1, 2, 3, 6}, .capacities = {5, 5}},
          "does not fit into a bin; where: item 1, dimension 1; found: 6; expected: 0 to 5");
  refuses({.needs = Numbers(kMaxVectorItems + 1), .capacities = {5}},
          "too many items to pack; found: 1048577");
  refuses({.needs = {-1, 2}, .capacities = {5, 5}}, "item 0, dimension 0; found: -1");
}

}  // namespace
}  // namespace tributary::schedule
