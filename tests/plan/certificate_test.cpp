#include "plan/certificate.h"

#include <gtest/gtest.h>

namespace tributary::plan {
namespace {

TEST(Certificate, JoinsTheBetterAnswerWithTheLowerBound) {
  const Certificate fast{.value = {10}, .lower_bound = {10}, .status = Status::kOptimal};
  const Certificate slow{.value = {20}, .lower_bound = {15}, .status = Status::kFeasible};
  const Certificate loose{.value = {20}, .lower_bound = {5}, .status = Status::kFeasible};
  EXPECT_EQ(join(fast, slow).value, Nanoseconds{10});
  EXPECT_EQ(join(fast, slow).status, Status::kOptimal);
  EXPECT_EQ(join(loose, fast).lower_bound, Nanoseconds{5});
  EXPECT_EQ(join(loose, fast).status, Status::kFeasible);
}

TEST(Certificate, StaysTruncatedWhereEitherSearchWas) {
  const Certificate whole{.value = {10}, .lower_bound = {10}, .status = Status::kOptimal};
  const Certificate cut{.value = {12}, .lower_bound = {11}, .status = Status::kTruncated};
  EXPECT_EQ(join(whole, cut).status, Status::kTruncated);
  EXPECT_EQ(join(cut, whole).status, Status::kTruncated);
  EXPECT_EQ(join(cut, whole).gap(), 0);
}

}  // namespace
}  // namespace tributary::plan
