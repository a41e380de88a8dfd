#include "schedule/packing_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/schedule/packing_oracle.h"

namespace tributary::schedule {
namespace {

TEST(PackingBound, GivesTheGoldenValues) {
  EXPECT_EQ(packing_bound(tokens({30, 45, 60, 20, 70, 35, 50, 25, 40, 55, 15, 65}), {100}), 6);
  EXPECT_EQ(packing_bound(tokens({44, 24, 24, 22, 21, 17, 8, 8, 6, 6}), {61}), 3);
  EXPECT_EQ(packing_bound(tokens({6, 6, 6}), {10}), 3);  // more than the sum of 1.8 bins says
  EXPECT_EQ(packing_bound({}, {10}), 0);
}

/// The formula of docs/theory/planning.md, "Bound of packing" for every threshold,
/// item by item.
std::int64_t bound_by_definition(std::span<const Tokens> lengths, std::int64_t capacity) {
  std::int64_t bound = 0;
  for (std::int64_t k = 1; k == 1 || 2 * k <= capacity; ++k) {
    std::int64_t n1 = 0;
    std::int64_t n2 = 0;
    std::int64_t s2 = 0;
    std::int64_t s3 = 0;
    for (const auto [count] : lengths) {
      if (count > capacity - k) {
        ++n1;
      } else if (2 * count > capacity) {
        ++n2;
        s2 += count;
      } else if (count >= k) {
        s3 += count;
      }
    }
    const std::int64_t rest = s3 - (n2 * capacity - s2);
    bound = std::max(bound, n1 + n2 + (rest > 0 ? (rest + capacity - 1) / capacity : 0));
  }
  return bound;
}

TEST(PackingBound, EqualsItsDefinitionOnRandomLengths) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "bound");
    const Tokens capacity = {random.between(1, 90)};
    const std::vector<Tokens> lengths =
        random_lengths(random, random.between(0, 40), random.between(1, capacity.count));
    EXPECT_EQ(packing_bound(lengths, capacity), bound_by_definition(lengths, capacity.count));
  }
}

TEST(PackingBound, NamesTheItemThatIsTooLong) {
  EXPECT_THAT(
      [] {
        (void)packing_bound(tokens({1, 11}), {10});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("item 1; found: 11 tokens")));
}

}  // namespace
}  // namespace tributary::schedule
