#include "core/nearest_name.h"

#include <gtest/gtest.h>
#include <vector>

namespace tributary {
namespace {

TEST(NearestName, FindsAMisspeltKeyAndNothingForAForeignOne) {
  const std::vector<std::string> known{"run.steps", "run.seed", "batch.global_samples"};
  EXPECT_EQ(nearest_name("run.step", known), "run.steps");
  EXPECT_EQ(nearest_name("batch.globalsamples", known), "batch.global_samples");
  EXPECT_EQ(nearest_name("zebra", known), "");
}

TEST(NearestName, TakesTheFirstOfEquallyNearNames) {
  const std::vector<std::string> known{"ab", "ac"};
  EXPECT_EQ(nearest_name("ad", known), "ab");
}

}  // namespace
}  // namespace tributary
