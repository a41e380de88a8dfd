#include "train/balance/step_planner.h"

#include <gtest/gtest.h>

namespace tributary::train {
namespace {

TEST(GatherParts, OneRankGetsWhatItMeasured) {
  for (const bool as_planned : {true, false}) {
    const schedule::MeasuredPart own{
        .replica = 0, .microbatches = {0.1, 1.0 / 3, 2e-9}, .as_planned = as_planned, .step = 0.7};
    const std::vector<schedule::MeasuredPart> parts = gather_parts(own, mesh::Mesh());
    ASSERT_EQ(parts.size(), 1);
    EXPECT_EQ(parts[0].replica, own.replica);
    EXPECT_EQ(parts[0].microbatches, own.microbatches) << "to the last bit";
    EXPECT_EQ(parts[0].as_planned, own.as_planned);
    EXPECT_EQ(parts[0].step, own.step);
  }
}

}  // namespace
}  // namespace tributary::train
