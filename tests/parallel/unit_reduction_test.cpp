#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "parallel/complete_gradients.h"
#include "parallel/layer_boundary.h"
#include "parallel/unit_chain.h"
#include "tests/mesh/thread_ranks.h"

namespace tributary::parallel {
namespace {

/// A unit with one bf16 parameter of 64 elements, whose gradient is the sum of its inputs.
class ScaledLayer {
 public:
  ScaledLayer(const mesh::Mesh& mesh, const ChainOptions& options) {
    Layout layout;
    layout.mesh = &mesh;
    layout.chain = std::make_shared<UnitChain>(options);
    units_.push_back(std::make_unique<Unit>("backbone", "layer", layout));
    scale_ = &unit().declare("scale", {64}, {});
    unit().materialize(at::kCPU, at::kBFloat16, /*trainable=*/true);
  }

  [[nodiscard]] Unit& unit() { return *units_.front(); }
  [[nodiscard]] const at::Tensor& scale() const { return scale_->value; }
  /// Forward and backward of an input that is `value` everywhere.
  void run(double value) {
    const at::Tensor input = at::full({64}, value, at::TensorOptions(at::kBFloat16));
    const at::Tensor out = run_layer(unit(), Keep::kActivations, input,
                                     [&](const at::Tensor& x) { return x * scale(); });
    torch::autograd::backward({out.sum()});
  }
  at::Tensor complete_gradient() {
    complete_gradients(units_);
    return unit().shard_gradient();
  }

 private:
  std::vector<std::unique_ptr<Unit>> units_;
  const Parameter* scale_ = nullptr;
};

/// A gradient whose parts are 1 on rank 0 and 2^-9 on rank 1: a sum that bf16 cannot hold.
at::Tensor reduced_gradient(const mesh::Mesh& mesh, bool reduce_in_f32) {
  ScaledLayer layer(mesh, {.reduce_in_f32 = reduce_in_f32});
  layer.run(mesh.world().index() == 0 ? 1.0 : std::exp2(-9));
  return layer.complete_gradient();
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
    ScaledLayer layer(mesh, {.reduce_once = true});
    for (const double part : {1.0, std::exp2(-9)}) layer.run(part);
    EXPECT_TRUE(at::equal(layer.complete_gradient(), at::full({32}, 2 * (1 + std::exp2(-9)))));
  });
}

/// One backward adds a large part and many that are small beside it.
TEST(UnitReduction, AddsPartsOfOneMicrobatchInFloat32) {
  for (const std::int64_t ranks : {1, 2}) {
    mesh::run_ranks({.dp_shard = ranks}, [&](const mesh::Mesh& mesh) {
      ScaledLayer layer(mesh, {});
      Unit& unit = layer.unit();
      const at::Tensor input = at::full({9, 64}, std::exp2(-9), at::TensorOptions(at::kBFloat16));
      input[8].fill_(1.0);  // the last part, which backward takes first
      const at::Tensor out = run_layer(unit, Keep::kActivations, input, [&](const at::Tensor& x) {
        at::Tensor sum = at::zeros({}, at::kFloat);
        for (std::int64_t part = 0; part < x.size(0); ++part)
          sum = sum + run_twice(unit, x[part], [&](const at::Tensor& row) {
                  return (row * layer.scale()).to(at::kFloat).sum();
                });
        return sum;
      });
      torch::autograd::backward({out});
      const at::Tensor gradient = layer.complete_gradient();
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
