#include <gtest/gtest.h>
#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/text.h"
#include "parallel/layer_boundary.h"
#include "parallel/linear.h"
#include "parallel/stage/stage_link.h"
#include "parallel/unit_chain.h"
#include "parallel/weight_queue.h"
#include "tests/mesh/thread_ranks.h"

namespace tributary::parallel {
namespace {

/// One linear layer whose backward may be split.
struct OneLayer {
  explicit OneLayer(bool recomputes) : keep(recomputes ? Keep::kInput : Keep::kActivations) {
    ChainOptions options;
    options.splits_backward = true;
    layout.chain = std::make_shared<UnitChain>(options);
    unit = std::make_unique<Unit>("backbone", "layer", layout);
    linear.emplace(*unit, "map", LinearShape{.in = 6, .out = 5, .bias = Bias::kZeros});
    unit->materialize(at::kCPU, at::kFloat, /*trainable=*/true);
    const at::NoGradGuard no_grad;
    unit->shard_value().copy_(at::arange(unit->shard_value().numel(), at::kFloat).mul(0.37).sin());
  }
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const {
    return run_layer(*unit, keep, x, [this](const at::Tensor& input) { return (*linear)(input); });
  }

  Keep keep;
  Layout layout;
  std::unique_ptr<Unit> unit;
  std::optional<Linear> linear;
};

class SplitBackward : public testing::TestWithParam<bool> {};

TEST_P(SplitBackward, GivesTheSameBitsWheneverWeightsCome) {
  const at::Tensor gradient = at::arange(20, at::kFloat).view({4, 5}).cos();
  const auto input = [] {
    return at::arange(24, at::kFloat).view({4, 6}).mul(0.1).requires_grad_();
  };
  const OneLayer at_once(GetParam());
  const at::Tensor x = input();
  torch::autograd::backward({at_once(x)}, {gradient});

  const OneLayer later(GetParam());
  const at::Tensor y = input();
  const at::Tensor out = later(y);
  WeightQueue queue;
  {
    const PutOff put_off(later.layout, queue);
    torch::autograd::backward({out}, {gradient});
  }
  EXPECT_TRUE(at::equal(x.grad(), y.grad()));
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(later.unit->shard_gradient().count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(later.unit->expects_backward(), GetParam());  // behind a boundary it is still due
  queue.run();
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(later.unit->expects_backward());
  EXPECT_GT(later.unit->shard_gradient().count_nonzero().item<std::int64_t>(), 30);
  EXPECT_TRUE(at::equal(at_once.unit->shard_gradient(), later.unit->shard_gradient()));
}

INSTANTIATE_TEST_SUITE_P(KeptOrRunAgain, SplitBackward, testing::Bool());

/// Virtual stages in the order of a V over the stages: 0, 1, 1, 0.
Layout v_shaped(const mesh::Mesh& mesh) {
  auto stages = std::make_shared<StageMap>();
  stages->layers.resize(4);
  stages->holders = {0, 1, 1, 0};
  Layout layout;
  layout.mesh = &mesh;
  layout.stages = stages;
  return layout;
}

TEST(Stages, PassThroughAllOfThemInOrder) {
  mesh::run_ranks({.pp = 2}, [](const mesh::Mesh& mesh) {
    const Layout layout = v_shaped(mesh);
    const at::Tensor result = run_stages(
        layout, [](int) { return at::empty({3}); },
        [](int stage, const at::Tensor& input) {
          EXPECT_EQ(input.defined(), stage > 0);
          const at::Tensor from = stage == 0 ? at::ones({3}) : input;
          return from * 10 + stage;
        });
    EXPECT_EQ(result.defined(), mesh.at().pp == 0);
    EXPECT_TRUE(!result.defined() || at::equal(result, at::full({3}, 10123.0)));
  });
}

TEST(Stages, KnowWhatTheyHold) {
  mesh::run_ranks({.pp = 2}, [](const mesh::Mesh& mesh) {
    const Layout layout = v_shaped(mesh);
    EXPECT_EQ(layout.holds_head(), mesh.at().pp == 0);
    EXPECT_EQ(layout.at_stage(1).is_here(), mesh.at().pp == 1);
    EXPECT_EQ(layout.stages->chunks_of(1), (std::vector<int>{1, 2}));
    Unit elsewhere("backbone", "layer", layout.at_stage(mesh.at().pp == 0 ? 1 : 0));
    const Parameter& weight = elsewhere.declare("weight", {7, 3}, {});
    elsewhere.materialize(at::kCPU, at::kFloat, /*trainable=*/true);
    EXPECT_TRUE(elsewhere.trainable());
    EXPECT_EQ(elsewhere.shard_value().numel(), 0);
    EXPECT_TRUE(elsewhere.boxes_of(weight).empty());
  });
}

TEST(Stages, SendSeveralMessagesBeforeTheFirstIsRead) {
  mesh::run_ranks({.pp = 2}, [](const mesh::Mesh& mesh) {
    const Layout layout = v_shaped(mesh);
    std::vector<mesh::Pending> sent;
    for (int microbatch = 0; microbatch < 3 && mesh.at().pp == 0; ++microbatch)
      sent.push_back(send(layout, {.from = 0, .to = 1, .microbatch = microbatch},
                          at::full({2}, microbatch + 1.0)));
    for (int microbatch = 0; microbatch < 3 && mesh.at().pp == 1; ++microbatch) {
      const at::Tensor values = at::empty({2});
      receive(layout, {.from = 0, .to = 1, .microbatch = microbatch}, values).wait();
      EXPECT_TRUE(at::equal(values, at::full({2}, microbatch + 1.0)));
    }
    for (mesh::Pending& message : sent) message.wait();
  });
}

constexpr int kUnitsOfAStage = 3;

/// Two virtual stages of three layers on each pp rank, and when their gathers begin.
struct TwoChunks {
  TwoChunks(const mesh::Mesh& of, Release release) : mesh(of) {
    auto stages = std::make_shared<StageMap>();
    stages->layers.resize(4);
    stages->holders = {0, 1, 0, 1};
    layout.mesh = &mesh;
    layout.stages = stages;
    ChainOptions options;
    options.release = release;
    layout.chain = std::make_shared<UnitChain>(options);
    for (int stage = 0; stage < 4; ++stage)
      for (int layer = 0; layer < kUnitsOfAStage; ++layer) {
        units.push_back(std::make_unique<Unit>("backbone", str("layer ", stage, ".", layer),
                                               layout.at_stage(stage)));
        scales.push_back(&units.back()->declare("scale", {32}, {}));
        units.back()->materialize(at::kCPU, at::kFloat, /*trainable=*/true);
      }
  }
  /// Counts the gathers begun since `reset` as each body of the layers ran.
  [[nodiscard]] at::Tensor forward(int stage, const at::Tensor& input) {
    layout.chain->begin_pass(stage);
    at::Tensor hidden = input;
    for (int layer = 0; layer < kUnitsOfAStage; ++layer) {
      const auto place = static_cast<std::size_t>(stage * kUnitsOfAStage + layer);
      hidden = run_layer(*units[place], Keep::kInput, hidden, [this, place](const at::Tensor& x) {
        begun.push_back(mesh.shard().traffic().calls - before);
        return x * scales[place]->value;
      });
    }
    return hidden;
  }
  void backward(int stage, const at::Tensor& output) {
    layout.chain->begin_pass(stage);
    torch::autograd::backward({output.sum()});
  }
  std::vector<std::int64_t> take_begun() {
    before = mesh.shard().traffic().calls;
    return std::exchange(begun, {});
  }

  const mesh::Mesh& mesh;
  Layout layout;
  std::vector<std::unique_ptr<Unit>> units;
  std::vector<const Parameter*> scales;
  std::vector<std::int64_t> begun;
  std::int64_t before = 0;
};

TEST(Stages, GatherOneUnitAheadInEveryPassOfEveryChunk) {
  mesh::run_ranks({.pp = 2, .dp_shard = 2}, [](const mesh::Mesh& mesh) {
    using Counts = std::vector<std::int64_t>;
    const Counts ahead{2, 3, 3};  // of three units, while each computes
    for (const Release release : {Release::kAfterForward, Release::kAfterStep}) {
      TwoChunks chunks(mesh, release);
      std::map<int, std::vector<at::Tensor>> outputs;
      for (const int stage : chunks.layout.stages->chunks_of(static_cast<int>(mesh.at().pp)))
        for (int microbatch = 0; microbatch < 2; ++microbatch) {
          (void)chunks.take_begun();
          outputs[stage].push_back(chunks.forward(stage, at::ones({32}).requires_grad_()));
          const bool is_whole = release == Release::kAfterStep && microbatch > 0;
          EXPECT_EQ(chunks.take_begun(), is_whole ? (Counts{0, 0, 0}) : ahead)
              << "forward of stage " << stage << ", microbatch " << microbatch;
        }
      // Backward of one microbatch while the other is under way.
      for (auto& [stage, of_stage] : outputs)
        for (const at::Tensor& output : of_stage) {
          (void)chunks.take_begun();
          chunks.backward(stage, output);
          EXPECT_EQ(chunks.take_begun(), release == Release::kAfterStep ? (Counts{0, 0, 0}) : ahead)
              << "backward of stage " << stage;
        }
      chunks.layout.chain->finish_reductions();
    }
  });
}

}  // namespace
}  // namespace tributary::parallel
