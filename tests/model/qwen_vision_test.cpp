#include "model/encoder/qwen_vision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::model {
namespace {

using parallel::Keep;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

config::VisionConfig small_config() {
  config::VisionConfig config;
  config.layers = 3;
  config.width = 32;
  config.heads = 2;
  config.mlp_width = 40;
  config.output_width = 24;
  config.patch = 4;
  config.window = 16;  // 2 x 2 merged tokens
  config.full_attention_layers = {1};
  return config;
}

/// A tower with every parameter drawn from N(0, 0.05^2).
struct Tower {
  /// Runs tower and merger.
  at::Tensor encode(const at::Tensor& given, std::span<const Grid> grids,
                    Keep keep = Keep::kActivations) {
    vision.set_keep([keep](std::string_view) { return parallel::LayerKeep{keep}; });
    return vision.project(vision.run_tower(/*stage=*/0, given, grids), grids);
  }

  explicit Tower(bool trains_vision = true, bool trains_projector = true)
      : config(small_config()), vision(config, {.units = &units}, "visual.") {
    at::manual_seed(3);
    for (const auto& unit : units) {
      unit->materialize(at::kCPU, at::kFloat,
                        unit->module() == "vision" ? trains_vision : trains_projector);
      const at::NoGradGuard no_gradients;
      unit->shard_value().normal_(0, 0.05);
    }
  }

  [[nodiscard]] at::Tensor rows(const Grid& grid, std::int64_t seed) const {
    at::manual_seed(seed);
    return at::randn({grid.patches(), config.patch_width()});
  }
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> list;
    for (const auto& unit : units) {
      list.push_back(unit->shard_gradient().clone());
      unit->shard_gradient().zero_();
    }
    return list;
  }

  config::VisionConfig config;
  std::vector<std::unique_ptr<parallel::Unit>> units;
  QwenVision vision;
};

const std::vector<Grid> kGrids = {{1, 6, 4}, {2, 4, 10}, {1, 2, 2}, {1, 12, 6}};

TEST(QwenVision, GivesEachItemThatItGivesAlone) {
  Tower tower;
  std::vector<at::Tensor> rows;
  std::vector<at::Tensor> alone;
  for (std::size_t i = 0; i < kGrids.size(); ++i) {
    rows.push_back(tower.rows(kGrids[i], static_cast<std::int64_t>(i)));
    alone.push_back(tower.encode(rows.back(), {&kGrids[i], 1}));
  }
  const at::Tensor together = tower.encode(at::cat(rows), kGrids);
  ASSERT_EQ(together.sizes(), (std::vector<std::int64_t>{6 + 20 + 1 + 18, 24}));
  EXPECT_LT((together - at::cat(alone)).abs().max().item<float>(),
            1e-6F * together.abs().max().item<float>());
}

TEST(QwenVision, LetsNoGradientPassBetweenFramesOrItems) {
  Tower tower;
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < kGrids.size(); ++i)
    parts.push_back(tower.rows(kGrids[i], static_cast<std::int64_t>(i)));
  at::Tensor rows = at::cat(parts).requires_grad_();
  // Merged tokens 16 to 25 are the second frame of the clip, its patches are rows 64 to 103.
  tower.encode(rows, kGrids).slice(0, 16, 26).pow(2).sum().backward();
  const at::Tensor touched = rows.grad().abs().sum(1) > 0;
  EXPECT_EQ(touched.slice(0, 64, 104).sum().item<std::int64_t>(), 40);
  EXPECT_EQ(touched.sum().item<std::int64_t>(), 40);
}

TEST(QwenVision, AttendsInWindowsButForTheChosenLayers) {
  // Without a full layer, a merged token sees its own window and nothing else.
  Tower tower;
  const Grid grid{1, 8, 8};
  at::Tensor rows = tower.rows(grid, 5).requires_grad_();
  tower.encode(rows, {&grid, 1}).slice(0, 0, 1).pow(2).sum().backward();
  EXPECT_EQ((rows.grad().abs().sum(1) > 0).sum().item<std::int64_t>(), 64);

  config::VisionConfig windows_only = small_config();
  windows_only.full_attention_layers = {};
  std::vector<std::unique_ptr<parallel::Unit>> units;
  QwenVision vision(windows_only, {.units = &units}, "visual.");
  for (const auto& unit : units) {
    unit->materialize(at::kCPU, at::kFloat, true);
    const at::NoGradGuard no_gradients;
    unit->shard_value().normal_(0, 0.05);
  }
  rows.mutable_grad().zero_();
  vision.project(vision.run_tower(0, rows, {&grid, 1}), {&grid, 1})
      .slice(0, 0, 1)
      .pow(2)
      .sum()
      .backward();
  const at::Tensor touched = rows.grad().abs().sum(1) > 0;
  // The first window is rows 0 to 7 and 16 to 23: merged tokens 0, 1, 4 and 5 of four patches.
  EXPECT_EQ(touched.sum().item<std::int64_t>(), 16);
  EXPECT_EQ(touched.slice(0, 0, 8).sum().item<std::int64_t>(), 8);
  EXPECT_EQ(touched.slice(0, 16, 24).sum().item<std::int64_t>(), 8);
}

TEST(QwenVision, RecomputesToTheSameBits) {
  Tower tower;
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < kGrids.size(); ++i)
    parts.push_back(tower.rows(kGrids[i], static_cast<std::int64_t>(i)));
  const at::Tensor rows = at::cat(parts);
  tower.encode(rows, kGrids).pow(2).sum().backward();
  const std::vector<at::Tensor> kept = tower.gradients();
  tower.encode(rows, kGrids, Keep::kInput).pow(2).sum().backward();
  const std::vector<at::Tensor> again = tower.gradients();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_GT(kept[i].abs().max().item<float>(), 0) << tower.units[i]->name();
    EXPECT_TRUE(kept[i].equal(again[i])) << tower.units[i]->name();
  }
}

TEST(QwenVision, BuildsNoGraphWhereItIsFrozen) {
  const Grid grid{1, 4, 4};
  Tower frozen(/*trains_vision=*/false, /*trains_projector=*/false);
  EXPECT_FALSE(frozen.encode(frozen.rows(grid, 1), {&grid, 1}).requires_grad());

  Tower trained;
  Tower half(/*trains_vision=*/false);
  trained.encode(trained.rows(grid, 1), {&grid, 1}).pow(2).sum().backward();
  for (const Keep keep : {Keep::kActivations, Keep::kInput}) {
    half.units.back()->shard_gradient().zero_();
    half.encode(half.rows(grid, 1), {&grid, 1}, keep).pow(2).sum().backward();
    EXPECT_FALSE(half.units.front()->shard_gradient().defined());
    EXPECT_TRUE(half.units.back()->shard_gradient().equal(trained.units.back()->shard_gradient()));
  }
}

TEST(QwenVision, RefusesRowsThatDoNotMatchTheGrids) {
  Tower tower;
  const Grid grid{1, 4, 4};
  EXPECT_THAT(
      [&] {
        (void)tower.encode(at::zeros({15, 96}), {&grid, 1});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("pixel rows do not match the grids"),
                                 HasSubstr("[15, 96]"), HasSubstr("[16, 96]"))));
}

}  // namespace
}  // namespace tributary::model
