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
  const at::Tensor input = at::full({64}, mesh.world().index() == 0 ? 1.0 : std::exp2(-9),
                                    at::TensorOptions(at::kBFloat16));
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

/// One backward adds a large part and many that are small beside it.
TEST(UnitReduction, AddsPartsOfOneMicrobatchInFloat32) {
  for (const std::int64_t ranks : {1, 2}) {
    mesh::run_ranks({.dp_shard = ranks}, [&](const mesh::Mesh& mesh) {
      Layout layout;
      layout.mesh = &mesh;
      layout.chain = std::make_shared<UnitChain>(ChainOptions{});
      std::vector<std::unique_ptr<Unit>> units;
      units.push_back(std::make_unique<Unit>("backbone", "layer", layout));
      Unit& unit = *units.front();
      const Parameter& scale = unit.declare("scale", {64}, {});
      unit.materialize(at::kCPU, at::kBFloat16, /*trainable=*/true);
      const at::Tensor input = at::full({9, 64}, std::exp2(-9), at::TensorOptions(at::kBFloat16));
      input[8].fill_(1.0);  // the last part, which backward takes first
      const at::Tensor out = run_layer(unit, Keep::kActivations, input, [&](const at::Tensor& x) {
        at::Tensor sum = at::zeros({}, at::kFloat);
        for (std::int64_t part = 0; part < x.size(0); ++part)
          sum = sum + run_twice(unit, x[part], [&](const at::Tensor& row) {
                  return (row * scale.value).to(at::kFloat).sum();
                });
        return sum;
      });
      torch::autograd::backward({out});
      complete_gradients(units);
      const at::Tensor gradient = unit.shard_gradient();
      EXPECT_EQ(gradient.scalar_type(), at::kFloat);
      EXPECT_TRUE(at::equal(
          gradient, at::full({64 / ranks}, static_cast<double>(ranks) * (1 + 8 * std::exp2(-9)))))
          << ranks << " ranks: " << gradient[0].item<float>();
    });
  }
}

TEST(UnitChain, GivesMemoryOfTheDeviceThatIsAskedFor) {
  UnitChain chain{ChainOptions{}};
  at::DataPtr host = chain.take(64, at::kCPU);
  const void* address = host.get();
  chain.give_back(std::move(host), 64);
  EXPECT_EQ(chain.take(64, at::kMeta).device().type(), at::kMeta);
  EXPECT_NE(chain.take(128, at::kCPU).get(), address);
  EXPECT_EQ(chain.take(64, at::kCPU).get(), address);
}

}  // namespace
}  // namespace tributary::parallel
