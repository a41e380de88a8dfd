#include "train/start/session.h"

#include <gtest/gtest.h>

namespace tributary::train {
namespace {

using config::Deterministic;

TEST(IsDeterministic, FollowsTheDeviceUnlessTheRunSays) {
  const at::Device cpu = at::kCPU;
  const at::Device cuda(at::kCUDA, 0);
  EXPECT_TRUE(is_deterministic(Deterministic::kAuto, cpu));
  EXPECT_FALSE(is_deterministic(Deterministic::kAuto, cuda));
  for (const at::Device& device : {cpu, cuda}) {
    EXPECT_TRUE(is_deterministic(Deterministic::kYes, device));
    EXPECT_FALSE(is_deterministic(Deterministic::kNo, device));
  }
}

}  // namespace
}  // namespace tributary::train
