#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/error.h"
#include "model/model.h"
#include "tests/model/tiny_text_model.h"

namespace tributary::model {
namespace {

using config::ModelFamily;

class TextModel : public testing::TestWithParam<ModelFamily> {};
INSTANTIATE_TEST_SUITE_P(Families, TextModel,
                         testing::Values(ModelFamily::kQwen2, ModelFamily::kQwen3),
                         [](const auto& family) {
                           return family.param == ModelFamily::kQwen2 ? "Qwen2" : "Qwen3";
                         });

TEST_P(TextModel, GivesAPackTheLogitsOfSeparatePasses) {
  const auto model = make_random_model(tiny_config(GetParam()));
  const at::NoGradGuard no_grad;
  const PackedBatch batch = random_pack({5, 1, 17, 60, 8}, 61);
  const at::Tensor packed = model->head(model->forward(batch));
  for (std::size_t i = 0; i + 1 < batch.cu_seqlens.size(); ++i) {
    const at::Tensor alone = model->head(model->forward(take_sample(batch, i)));
    const at::Tensor here = packed.narrow(0, batch.cu_seqlens[i], alone.size(0));
    EXPECT_LT(largest(here - alone), 1e-5 * largest(alone)) << "sample " << i;
  }
}

TEST_P(TextModel, GivesAPackTheGradientsOfSeparatePasses) {
  const auto model = make_random_model(tiny_config(GetParam()));
  const PackedBatch batch = random_pack({5, 17, 8}, 61);
  torch::autograd::backward(
      {sum_loss(*model, model->forward(batch), next_tokens(batch), batch.cu_seqlens).sum});
  const at::Tensor packed = all_gradients(*model);
  clear_gradients(*model);
  for (std::size_t i = 0; i < 3; ++i) {
    const PackedBatch single = take_sample(batch, i);
    torch::autograd::backward(
        {sum_loss(*model, model->forward(single), next_tokens(single), single.cu_seqlens).sum});
  }
  const at::Tensor separate = all_gradients(*model);
  EXPECT_LT(largest(packed - separate), 1e-5 * largest(separate));
}

TEST_P(TextModel, LetsNoSampleReachAnother) {
  const auto model = make_random_model(tiny_config(GetParam()));
  const PackedBatch batch = random_pack({6, 9, 4}, 61);
  PackedBatch changed = batch;
  changed.input_ids = batch.input_ids.clone();
  changed.input_ids.narrow(0, 0, 6).copy_((batch.input_ids.narrow(0, 0, 6) + 7).remainder(61));
  const at::NoGradGuard no_grad;
  const at::Tensor before = model->forward(batch);
  const at::Tensor after = model->forward(changed);
  EXPECT_TRUE(at::equal(before.narrow(0, 6, 13), after.narrow(0, 6, 13)));
  EXPECT_FALSE(at::equal(before.narrow(0, 0, 6), after.narrow(0, 0, 6)));
}

TEST_P(TextModel, LetsNoGradientFlowBetweenSamples) {
  // Tokens of the first sample occur nowhere else, so their embedding rows show what reaches it.
  const auto model = make_random_model([&] {
    config::ModelConfig config = tiny_config(GetParam());
    config.backbone.tied_head = false;  // a tied head gives every row a gradient
    return config;
  }());
  PackedBatch batch = random_pack({4, 9}, 61);
  batch.input_ids = at::arange(13, at::kLong);
  at::Tensor targets = next_tokens(batch);
  targets.narrow(0, 0, 4).fill_(-100);
  torch::autograd::backward(
      {sum_loss(*model, model->forward(batch), targets, batch.cu_seqlens).sum});
  const auto& embed = *model->units().front();
  const at::Tensor gradient = embed.gradient_of(*embed.parameters().front());
  EXPECT_EQ(largest(gradient.narrow(0, 0, 4)), 0.0);
  EXPECT_GT(largest(gradient.narrow(0, 4, 8)), 0.0);
}

TEST_P(TextModel, GivesBitEqualGradientsWhenLayersRunAgain) {
  const auto model = make_random_model(tiny_config(GetParam()));
  const PackedBatch batch = random_pack({5, 17, 8}, 61);
  const auto gradients = [&] {
    clear_gradients(*model);
    torch::autograd::backward(
        {sum_loss(*model, model->forward(batch), next_tokens(batch), batch.cu_seqlens).sum});
    return all_gradients(*model);
  };
  const at::Tensor kept = gradients();
  for (const auto level : {config::RecomputePlan::kFull, config::RecomputePlan::kSelective,
                           config::RecomputePlan::kAttention}) {
    for (const std::int64_t every : {1, 2}) {
      const std::vector<config::ModuleRecompute> recompute{{"backbone", level, every}};
      model->set_recompute(recompute);
      EXPECT_TRUE(at::equal(kept, gradients())) << word_of(recompute.front());
    }
  }
  model->set_recompute({}, std::vector<std::string>{"backbone"});
  EXPECT_TRUE(at::equal(kept, gradients()));
}

TEST_P(TextModel, HasNoGradientsWhenFrozen) {
  const auto model = make_random_model(tiny_config(GetParam()), 1, /*trainable=*/false);
  const PackedBatch batch = random_pack({5, 3}, 61);
  EXPECT_FALSE(model->forward(batch).requires_grad());
}

TEST_P(TextModel, RefusesImages) {
  const auto model = make_random_model(tiny_config(GetParam()));
  PackedBatch batch = random_pack({5}, 61);
  batch.media[Modality::kImage].rows = at::zeros({4, 6});
  batch.media[Modality::kImage].grids = {{1, 2, 2}};
  EXPECT_THAT([&] { (void)model->forward(batch); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "a text model cannot take images, clips or sounds; found: 1 images, "
                  "0 clips, 0 sounds")));
}

TEST(SumLoss, CountsTargetsAndGivesTheLossOfEachRow) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  const at::Tensor hidden = at::randn({6, 24});
  const at::Tensor targets = at::tensor({-100, 3, -100, 60, 0, -100}, at::kLong);
  const LossSum loss = sum_loss(*model, hidden, targets, std::vector{0, 6});
  EXPECT_EQ(loss.targets, 3);
  const at::Tensor shares = at::log_softmax(model->head(hidden), -1);
  EXPECT_NEAR(loss.rows[0].item<float>(), -shares[1][3].item<float>(), 1e-5);
  EXPECT_NEAR(loss.rows[1].item<float>(), -shares[3][60].item<float>(), 1e-5);
  EXPECT_NEAR(loss.rows[2].item<float>(), -shares[4][0].item<float>(), 1e-5);
  EXPECT_NEAR(loss.sum.item<float>(), loss.rows.sum().item<float>(), 1e-5);
  EXPECT_FALSE(loss.rows.requires_grad());
}

TEST(SumLoss, IsZeroWithoutTargets) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen2));
  const LossSum loss =
      sum_loss(*model, at::randn({2, 24}), at::full({2}, -100, at::kLong), std::vector{0, 2});
  EXPECT_EQ(loss.targets, 0);
  EXPECT_EQ(loss.sum.item<float>(), 0.0F);
}

TEST(SumLoss, InChunksEqualsAllAtOnce) {
  const auto model = make_random_model(tiny_config(ModelFamily::kQwen3));
  const at::Tensor targets = at::arange(40, at::kLong);
  const auto run = [&](std::int64_t max_logits) {
    clear_gradients(*model);
    at::Tensor hidden = at::linspace(-1, 1, 40 * 24).view({40, 24}).requires_grad_();
    const LossSum loss = sum_loss(*model, hidden, targets, std::vector{0, 40}, max_logits);
    torch::autograd::backward({loss.sum});
    return std::tuple(loss.rows, hidden.grad(), all_gradients(*model));
  };
  const auto [rows, gradient, parameters] = run(1 << 20);
  const auto [rows_of_chunks, gradient_of_chunks, parameters_of_chunks] = run(61 * 7);
  EXPECT_LT(largest(rows - rows_of_chunks), 1e-5 * largest(rows));
  EXPECT_LT(largest(gradient - gradient_of_chunks), 1e-5 * largest(gradient));
  EXPECT_LT(largest(parameters - parameters_of_chunks), 1e-5 * largest(parameters));
}

TEST(Initialize, DependsOnSeedAndNameAlone) {
  config::ModelConfig small = tiny_config(ModelFamily::kQwen2);
  config::ModelConfig large = small;
  large.backbone.layers = 3;
  const auto fill = [](const config::ModelConfig& config, std::uint64_t seed) {
    auto model = make_model(config);
    for (const auto& unit : model->units()) unit->materialize(at::kCPU, at::kFloat, true);
    initialize(*model, seed);
    return model;
  };
  const auto one = fill(small, 7);
  const auto two = fill(large, 7);
  const auto other = fill(small, 8);
  const auto weight = [](const Model& model, std::size_t unit) {
    return model.units()[unit]->parameters()[1]->value;  // q_proj.weight of a layer
  };
  EXPECT_TRUE(at::equal(weight(*one, 2), weight(*two, 2)));
  EXPECT_FALSE(at::equal(weight(*one, 2), weight(*other, 2)));
  EXPECT_FALSE(at::equal(weight(*one, 1), weight(*one, 2)));
}

TEST(Initialize, DrawsWeightsAsTransformersDoes) {
  config::ModelConfig config = tiny_config(ModelFamily::kQwen2);
  config.backbone.initializer_range = 0.02;
  config.backbone.vocab = 4000;
  auto model = make_model(config);
  for (const auto& unit : model->units()) unit->materialize(at::kCPU, at::kFloat, true);
  initialize(*model, 3);
  for (const auto& unit : model->units()) {
    for (const auto& parameter : unit->parameters()) {
      const at::Tensor& value = parameter->value.detach();
      if (parameter->name.ends_with("norm.weight")) {
        EXPECT_TRUE(at::equal(value, at::ones_like(value))) << parameter->name;
      } else if (parameter->name.ends_with(".bias")) {
        EXPECT_EQ(largest(value), 0.0) << parameter->name;
      } else {
        const double spread = 4 / std::sqrt(static_cast<double>(value.numel()));
        EXPECT_NEAR(value.std().item<double>() / 0.02, 1, spread) << parameter->name;
        EXPECT_NEAR(value.mean().item<double>() / 0.02, 0, spread) << parameter->name;
      }
    }
  }
}

}  // namespace
}  // namespace tributary::model
