#include "studies/dflop/throughput.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Throughput, FollowsItsLaw) {
  const Throughput law = Throughput::saturating(100, 3);
  EXPECT_DOUBLE_EQ(law.at(1), 25);
  EXPECT_DOUBLE_EQ(law.at(9), 75);
  EXPECT_DOUBLE_EQ(law.most_up_to(9), 75);
  EXPECT_DOUBLE_EQ(law.peak(), 100);
}

TEST(Throughput, IsStraightBetweenPointsAndConstantOutside) {
  const Throughput table = Throughput::table({{2, 10}, {4, 30}, {8, 20}});
  EXPECT_DOUBLE_EQ(table.at(1), 10);
  EXPECT_DOUBLE_EQ(table.at(2), 10);
  EXPECT_DOUBLE_EQ(table.at(3), 20);
  EXPECT_DOUBLE_EQ(table.at(6), 25);
  EXPECT_DOUBLE_EQ(table.at(99), 20);
  EXPECT_DOUBLE_EQ(table.most_up_to(1), 10);
  EXPECT_DOUBLE_EQ(table.most_up_to(3), 20);
  EXPECT_DOUBLE_EQ(table.most_up_to(7), 30);
  EXPECT_DOUBLE_EQ(table.peak(), 30);
}

TEST(Throughput, NamesWhatCannotBeUsed) {
  EXPECT_THAT([] { (void)Throughput::saturating(0, 1); },
              ThrowsMessage<Error>(HasSubstr("found: peak 0 FLOP/s, half 1")));
  EXPECT_THAT([] { (void)Throughput::table({}); },
              ThrowsMessage<Error>(HasSubstr("throughput table is empty")));
  EXPECT_THAT(
      [] {
        (void)Throughput::table({{2, 1}, {2, 1}});
      },
      ThrowsMessage<Error>(HasSubstr("found: shape 2, 1 FLOP/s")));
  EXPECT_THAT(
      [] {
        (void)Throughput::table({{2, std::nan("")}});
      },
      ThrowsMessage<Error>(HasSubstr("found: shape 2, nan FLOP/s")));
}

}  // namespace
}  // namespace tributary::studies
