#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "parallel/complete_gradients.h"
#include "parallel/layer_boundary.h"
#include "parallel/unit_chain.h"
#include "tests/mesh/thread_ranks.h"

namespace tributary::parallel {
namespace {

/// The gradient of a bf16 parameter whose parts are 1 on rank 0 and 2^-9 on rank 1: a sum that bf16
/// cannot hold.
at::Tensor reduced_gradient(const mesh::Mesh& mesh, bool reduce_in_f32) {
  Layout layout;
  layout.mesh = &mesh;
  ChainOptions options;
  options.reduce_in_f32 = reduce_in_f32;
  layout.chain = std::make_shared<UnitChain>(options);
  std::vector<std::unique_ptr<Unit>> units;
  units.push_back(std::make_unique<Unit>("backbone", "layer", layout));
  Unit& unit = *units.front();
  const Parameter& scale = unit.declare("scale", {64}, {});
  unit.materialize(at::kCPU, at::kBFloat16, /*trainable=*/true);
  const at::Tensor input =
      at::full({64}, mesh.rank() == 0 ? 1.0 : std::exp2(-9), at::TensorOptions(at::kBFloat16));
  const at::Tensor out = run_layer(unit, Keep::kActivations, input,
                                   [&](const at::Tensor& x) { return x * scale.value; });
  torch::autograd::backward({out.sum()});
  complete_gradients(units);
  return unit.shard_gradient();
}

TEST(UnitReduction, AddsGradientsOfBfloat16InFloat32) {
  mesh::run_ranks({.dp_shard = 2}, [](const mesh::Mesh& mesh) {
    const at::Tensor wide = reduced_gradient(mesh, /*reduce_in_f32=*/true);
    EXPECT_EQ(wide.scalar_type(), at::kFloat);
    EXPECT_EQ(wide.numel(), 32);
    EXPECT_TRUE(at::equal(wide, at::full({32}, 1 + std::exp2(-9))));
    const at::Tensor narrow = reduced_gradient(mesh, /*reduce_in_f32=*/false);
    EXPECT_TRUE(at::equal(narrow, at::ones({32}, at::kBFloat16)));
  });
}

TEST(UnitReduction, AddsMicrobatchesOfBfloat16InFloat32) {
  mesh::run_ranks({.dp_shard = 2}, [](const mesh::Mesh& mesh) {
    Layout layout;
    layout.mesh = &mesh;
    ChainOptions options;
    options.reduce_once = true;
    layout.chain = std::make_shared<UnitChain>(options);
    std::vector<std::unique_ptr<Unit>> units;
    units.push_back(std::make_unique<Unit>("backbone", "layer", layout));
    Unit& unit = *units.front();
    const Parameter& scale = unit.declare("scale", {64}, {});
    unit.materialize(at::kCPU, at::kBFloat16, /*trainable=*/true);
    for (const double part : {1.0, std::exp2(-9)}) {
      const at::Tensor input = at::full({64}, part, at::TensorOptions(at::kBFloat16));
      const at::Tensor out = run_layer(unit, Keep::kActivations, input,
                                       [&](const at::Tensor& x) { return x * scale.value; });
      torch::autograd::backward({out.sum()});
    }
    complete_gradients(units);
    EXPECT_TRUE(at::equal(unit.shard_gradient(), at::full({32}, 2 * (1 + std::exp2(-9)))));
  });
}

}  // namespace
}  // namespace tributary::parallel
