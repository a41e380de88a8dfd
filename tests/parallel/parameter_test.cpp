#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/error.h"
#include "parallel/unit.h"

namespace tributary::parallel {
namespace {

const Initializer kOnes{.kind = Initializer::Kind::kOnes, .deviation = 0};

TEST(Unit, StartsEachParameterAt64Bytes) {
  Unit unit("backbone", "layer");
  unit.declare("a", {3}, kOnes);
  unit.declare("b", {5, 7}, kOnes);
  unit.declare("c", {1}, kOnes);
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/true);
  for (const auto& parameter : unit.parameters()) {
    EXPECT_EQ(parameter->offset * 4 % 64, 0) << parameter->name;
    EXPECT_EQ(parameter->value.const_data_ptr(),
              unit.shard_value().const_data_ptr<float>() + parameter->offset);
  }
  EXPECT_EQ(unit.shard_value().numel(), 16 + 48 + 16);
}

TEST(Unit, KeepsJoinedParametersBackToBack) {
  Unit unit("backbone", "layer");
  unit.declare("first", {1}, kOnes);
  const JoinedParameters& joined = unit.declare_joined({"q", "k"}, {3, 2}, {5}, kOnes);
  unit.declare("last", {2}, kOnes);
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/true);
  EXPECT_EQ(joined.value.sizes(), at::IntArrayRef({5, 5}));
  EXPECT_EQ(joined.parts[1]->offset, joined.parts[0]->offset + 15);
  unit.shard_value().copy_(at::arange(unit.shard_value().numel(), at::kFloat));
  EXPECT_TRUE(at::equal(joined.value.narrow(0, 0, 3), joined.parts[0]->value));
  EXPECT_TRUE(at::equal(joined.value.narrow(0, 3, 2), joined.parts[1]->value));
}

TEST(Unit, AddsGradientsIntoTheFlatBufferInPlace) {
  Unit unit("backbone", "layer");
  Parameter& plain = unit.declare("plain", {4}, kOnes);
  const JoinedParameters& joined = unit.declare_joined({"q", "k"}, {3, 2}, {}, kOnes);
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/true);
  const void* buffer = unit.shard_gradient().const_data_ptr();
  for (int microbatch = 1; microbatch <= 3; ++microbatch) {
    torch::autograd::backward({at::sum(plain.value * 2) + at::sum(joined.value * 5)});
    EXPECT_EQ(unit.shard_gradient().const_data_ptr(), buffer);
    EXPECT_EQ(plain.value.grad().const_data_ptr(), buffer);
    EXPECT_TRUE(at::equal(unit.gradient_of(plain), at::full({4}, 2.0 * microbatch)));
    EXPECT_TRUE(at::equal(unit.gradient_of(*joined.parts[1]), at::full({2}, 5.0 * microbatch)));
    EXPECT_TRUE(at::equal(joined.parts[0]->value.grad(), at::full({3}, 5.0 * microbatch)));
  }
}

TEST(Unit, HasNoGradientBufferWhenFrozen) {
  Unit unit("vision", "patches");
  Parameter& parameter = unit.declare("a", {3}, kOnes);
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/false);
  EXPECT_FALSE(unit.shard_gradient().defined());
  EXPECT_FALSE(unit.gradient_of(parameter).defined());
  EXPECT_FALSE(parameter.value.requires_grad());
}

TEST(Unit, RefusesAParameterAfterMaterialize) {
  Unit unit("backbone", "layer");
  unit.declare("a", {3}, kOnes);
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/true);
  EXPECT_THAT([&] { unit.declare("late", {1}, kOnes); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("found: late")));
}

TEST(Unit, RefusesJoinedNamesWithoutRowCounts) {
  Unit unit("backbone", "layer");
  EXPECT_THAT(
      [&] {
        unit.declare_joined({"q", "k"}, {3}, {}, kOnes);
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("found: 2 names, 1 row counts")));
}

}  // namespace
}  // namespace tributary::parallel
