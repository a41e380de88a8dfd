#include "core/join.h"

#include <gmock/gmock.h>

namespace tributary {
namespace {

TEST(Join, PutsTextBetweenItems) {
  EXPECT_EQ(join(std::vector<int>{}), "");
  EXPECT_EQ(join(std::vector{1}), "1");
  EXPECT_EQ(join(std::vector{1, 2, 3}), "1, 2, 3");
  EXPECT_EQ(join(std::vector<std::string>{"", "a", ""}, "-"), "-a-");
}

TEST(Join, PrintsTheFormOfEachItem) {
  EXPECT_EQ(join(std::vector{1, 2}, " ", [](int number) { return 10 * number; }), "10 20");
}

}  // namespace
}  // namespace tributary
