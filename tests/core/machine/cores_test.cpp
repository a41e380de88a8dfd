#include "core/machine/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Cores, RanksShareThemInRows) {
  const std::vector<int> usable{0, 1, 2, 3, 8, 9, 10};
  EXPECT_THAT(part_of_cores(usable, 0, 1), usable);
  EXPECT_THAT(part_of_cores(usable, 0, 3), ElementsAre(0, 1));
  EXPECT_THAT(part_of_cores(usable, 1, 3), ElementsAre(2, 3));
  EXPECT_THAT(part_of_cores(usable, 2, 3), ElementsAre(8, 9, 10));
}

TEST(Cores, EveryCoreHasOneRankAndEveryRankACore) {
  for (int cores = 1; cores <= 9; ++cores) {
    std::vector<int> usable(static_cast<std::size_t>(cores));
    for (int core = 0; core < cores; ++core) usable[static_cast<std::size_t>(core)] = core;
    for (int ranks = 1; ranks <= cores; ++ranks) {
      std::vector<int> dealt;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int> part = part_of_cores(usable, rank, ranks);
        EXPECT_FALSE(part.empty());
        dealt.insert(dealt.end(), part.begin(), part.end());
      }
      EXPECT_EQ(dealt, usable) << cores << " cores, " << ranks << " ranks";
    }
  }
}

TEST(Cores, MoreRanksThanCoresTakeTurns) {
  const std::vector<int> usable{4, 6};
  for (int rank = 0; rank < 5; ++rank)
    EXPECT_THAT(part_of_cores(usable, rank, 5), ElementsAre(rank % 2 == 0 ? 4 : 6));
}

TEST(Cores, WhatABoundThreadStartsStaysThere) {
  ASSERT_FALSE(usable_cores().empty());
  const int last = usable_cores().back();
  std::vector<int> before, of_child;
  std::thread([&] {
    before = bound_cores();
    bind_to_cores({last});
    std::thread([&] { of_child = bound_cores(); }).join();
  }).join();
  EXPECT_THAT(before, IsEmpty());
  const bool is_part = usable_cores().size() > 1;
  EXPECT_EQ(of_child, is_part ? std::vector<int>{last} : std::vector<int>{});
  EXPECT_THAT(bound_cores(), IsEmpty()) << "this thread was not bound";
}

}  // namespace
}  // namespace tributary
