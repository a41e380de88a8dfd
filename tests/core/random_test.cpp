#include "core/random.h"

#include <array>
#include <gtest/gtest.h>
#include <vector>

namespace tributary {
namespace {

TEST(RandomStream, DependsOnEveryPartOfItsKey) {
  const auto first = [](RandomStream stream) { return stream.next(); };
  const std::uint64_t base = first(RandomStream(1, "data", 2, 3));
  EXPECT_EQ(base, first(RandomStream(1, "data", 2, 3)));
  EXPECT_NE(base, first(RandomStream(2, "data", 2, 3)));
  EXPECT_NE(base, first(RandomStream(1, "date", 2, 3)));
  EXPECT_NE(base, first(RandomStream(1, "data", 3, 2)));
}

TEST(RandomStream, DrawsEvenly) {
  RandomStream random(7);
  std::array<int, 6> seen{};
  for (int i = 0; i < 60000; ++i) ++seen[random.below(6)];
  for (const int count : seen) EXPECT_NEAR(count, 10000, 400);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 50000; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 50000, 0, 0.02);
  EXPECT_NEAR(squares / 50000, 1, 0.03);
}

TEST(KeyedPermutation, VisitsEachElementOnce) {
  for (const std::uint64_t size : {1ULL, 2ULL, 3ULL, 17ULL, 1000ULL, 4096ULL}) {
    const KeyedPermutation order(/*key=*/5, size);
    std::vector<int> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) ++seen.at(order.at(i));
    EXPECT_EQ(seen, std::vector<int>(size, 1)) << size;
  }
}

}  // namespace
}  // namespace tributary
