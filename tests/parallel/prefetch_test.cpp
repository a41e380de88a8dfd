#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "parallel/layer_boundary.h"
#include "parallel/unit_chain.h"
#include "tests/mesh/thread_ranks.h"

namespace tributary::parallel {
namespace {

/// Two stages of three layers each on two pipeline ranks, each layer cut over two ranks; counts the
/// gathers that this rank has started when a layer computes.
class Stages {
 public:
  Stages(const mesh::Mesh& mesh, Release release) : mesh_(mesh) {
    auto stages = std::make_shared<StageMap>();
    stages->layers.resize(2);
    stages->holders = {0, 1};
    Layout layout;
    layout.mesh = &mesh;
    layout.stages = stages;
    ChainOptions options;
    options.release = release;
    layout.chain = chain_ = std::make_shared<UnitChain>(options);
    for (int i = 0; i < 6; ++i) {
      units_.push_back(
          std::make_unique<Unit>("backbone", "layer." + std::to_string(i), layout.at_stage(i / 3)));
      scales_.push_back(&units_.back()->declare("scale", {4}, {}));
      units_.back()->materialize(at::kCPU, at::kFloat, /*trainable=*/true);
    }
  }

  /// One microbatch through the layers of this rank.
  at::Tensor forward() {
    chain_->begin_forward();
    at::Tensor passed = at::ones({4}, at::kFloat).requires_grad_();
    for (std::size_t i = 0; i < units_.size(); ++i)
      if (units_[i]->is_here()) passed = run(i, passed);
    return passed.sum();
  }
  void discard() {
    for (const auto& unit : units_) unit->discard();
  }
  /// Gathers started by the time that each layer computed, forward and recomputed, since forward().
  std::vector<std::int64_t> started;

 private:
  at::Tensor run(std::size_t i, const at::Tensor& input) {
    return run_layer(*units_[i], Keep::kInput, input, [this, i](const at::Tensor& x) {
      started.push_back(mesh_.shard().traffic().calls);
      return x * scales_[i]->value;
    });
  }

  const mesh::Mesh& mesh_;
  std::shared_ptr<UnitChain> chain_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<const Parameter*> scales_;
};

TEST(Prefetch, RunsAheadInEveryMicrobatchOfEveryStage) {
  mesh::run_ranks({.pp = 2, .dp_shard = 2}, [](const mesh::Mesh& mesh) {
    Stages stages(mesh, Release::kAfterForward);
    std::vector<at::Tensor> losses;
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      const std::int64_t before = mesh.shard().traffic().calls;
      stages.started.clear();
      losses.push_back(stages.forward());
      // The first layer gathers itself and the next one, the last nothing of another stage.
      EXPECT_EQ(stages.started, (std::vector<std::int64_t>{before + 2, before + 3, before + 3}))
          << "microbatch " << microbatch;
    }
    for (const at::Tensor& loss : losses) {
      const std::int64_t before = mesh.shard().traffic().calls;
      stages.started.clear();
      torch::autograd::backward({loss});
      EXPECT_EQ(stages.started, (std::vector<std::int64_t>{before + 2, before + 3, before + 3}));
    }
  });
}

TEST(Prefetch, RunsAheadInEveryStepWhereValuesStayForOne) {
  mesh::run_ranks({.pp = 2, .dp_shard = 2}, [](const mesh::Mesh& mesh) {
    Stages stages(mesh, Release::kAfterStep);
    for (int step = 0; step < 3; ++step) {
      const std::int64_t before = mesh.shard().traffic().calls;
      stages.started.clear();
      const at::Tensor loss = stages.forward();
      EXPECT_EQ(stages.started, (std::vector<std::int64_t>{before + 2, before + 3, before + 3}))
          << "step " << step;
      torch::autograd::backward({loss});
      stages.discard();
    }
  });
}

}  // namespace
}  // namespace tributary::parallel
