#include "core/machine/own_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary {
namespace {

TEST(FindInOwnLibrary, SaysWhyThereIsNone) {
  const Result<void*> absent = find_in_own_library("libtributary_absent.so", "give");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.refusal().reason, testing::HasSubstr("libtributary_absent.so"));
  const Result<void*> without = find_in_own_library("libm.so.6", "tributary_absent");
  ASSERT_FALSE(without);
  EXPECT_EQ(without.refusal().reason, "it lacks its table");
}

TEST(FindInOwnLibrary, FindsAFunctionByName) {
  const Result<void*> found = find_in_own_library("libm.so.6", "cosf");
  ASSERT_TRUE(found) << found.refusal().reason;
  EXPECT_EQ(reinterpret_cast<float (*)(float)>(found.value())(0.0F), 1.0F);
}

}  // namespace
}  // namespace tributary
