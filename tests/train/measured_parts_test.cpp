#include "train/measured_parts.h"

#include <gtest/gtest.h>

namespace tributary::train {
namespace {

TEST(GatherParts, OneRankGetsWhatItMeasured) {
  const std::vector<schedule::MeasuredPart> own{
      {.passes = {0.1, 1.0 / 3, 2e-9}, .step = 0.7},
      {.encoder = 1, .place = 3, .passes = {0.25}, .as_planned = false, .step = 0.7}};
  const std::vector<schedule::MeasuredPart> parts = gather_parts(own, mesh::Mesh().world());
  ASSERT_EQ(parts.size(), own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(parts[i].encoder, own[i].encoder);
    EXPECT_EQ(parts[i].place, own[i].place);
    EXPECT_EQ(parts[i].passes, own[i].passes) << "to the last bit";
    EXPECT_EQ(parts[i].as_planned, own[i].as_planned);
    EXPECT_EQ(parts[i].step, own[i].step);
  }
  EXPECT_TRUE(gather_parts({}, mesh::Mesh().world()).empty());
}

}  // namespace
}  // namespace tributary::train
