#include "train/optimizer/apply_update.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include <ATen/ATen.h>

#include "tests/model/tiny_text_model.h"
#include "train/optimizer/gradient_norm.h"

namespace tributary::train {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A model with gradients of 1, its optimizer, and a configuration whose schedule shows its step.
struct Trained {
  std::unique_ptr<model::Model> model =
      model::make_random_model(model::tiny_config(config::ModelFamily::kQwen2));
  config::RunConfig config;
  std::unique_ptr<Optimizer> optimizer;

  Trained() : config(make_config()), optimizer(make_optimizer(config.optimizer, model->units())) {
    for (const auto& unit : model->units()) {
      at::Tensor gradient = unit->shard_gradient();
      gradient.fill_(1);
    }
  }
  static config::RunConfig make_config() {
    config::RunConfig config;
    config.run.steps = 100;
    config.schedule = {
        .decay = config::Decay::kLinear, .warmup_steps = 0, .decay_steps = 0, .final_ratio = 0};
    config.optimizer.learning_rate = 0.01;
    return config;
  }
  [[nodiscard]] Update update(double loss) {
    return apply_update(*model, *optimizer, config, loss, square_gradients(model->units()).all);
  }
  /// Copies of all values and moments.
  [[nodiscard]] std::vector<at::Tensor> snapshot() const {
    std::vector<at::Tensor> copies;
    for (const auto& unit : model->units()) copies.push_back(unit->shard_value().clone());
    for (const NamedTensor& entry : optimizer->state()) copies.push_back(entry.value.clone());
    return copies;
  }
};

bool same_bits(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!at::equal(left[i], right[i])) return false;
  return left.size() == right.size();
}

void expect_skipped(Trained& trained, double loss, const std::string& named) {
  const auto before = trained.snapshot();
  const Update update = trained.update(loss);
  EXPECT_EQ(update.not_finite, named);
  EXPECT_TRUE(same_bits(trained.snapshot(), before));
}

TEST(ApplyUpdate, ChangesNothingWhenTheLossIsNotFinite) {
  Trained trained;
  (void)trained.update(1.0);
  expect_skipped(trained, std::nan(""), "loss");
  expect_skipped(trained, kInfinity, "loss");
  EXPECT_EQ(trained.optimizer->steps(), 1);
}

TEST(ApplyUpdate, NamesTheParameterWhoseGradientIsNotFinite) {
  Trained trained;
  const auto& unit = trained.model->units()[1];
  const parallel::Parameter& parameter = *unit->parameters()[1];
  unit->gradient_of(parameter).view({-1})[0] = kInfinity;
  expect_skipped(trained, 1.0, parameter.name);
}

TEST(ApplyUpdate, HoldsTheScheduleDuringASkippedStep) {
  Trained trained;
  const auto rate = [&](double loss) { return trained.update(loss).learning_rate; };
  EXPECT_DOUBLE_EQ(rate(1), 0.01);
  EXPECT_DOUBLE_EQ(rate(std::nan("")), 0.01 * 0.99);
  EXPECT_DOUBLE_EQ(rate(1), 0.01 * 0.99);
  EXPECT_DOUBLE_EQ(rate(1), 0.01 * 0.98);
}

TEST(ApplyUpdate, ClipsTheGlobalNorm) {
  // With AdamW only the first moment shows the size of a gradient: (1 - beta1) * clipped.
  Trained trained;
  trained.config.optimizer.clip_norm = 0.5;
  double elements = 0;
  for (const auto& unit : trained.model->units())
    elements += static_cast<double>(unit->shard_gradient().numel());
  const Update update = trained.update(1.0);
  EXPECT_NEAR(update.grad_norm, std::sqrt(elements), 1e-3);
  const at::Tensor moment = trained.optimizer->state()[0].value;
  EXPECT_NEAR(moment.view({-1})[0].item<double>(), 0.1 * 0.5 / std::sqrt(elements), 1e-8);
}

}  // namespace
}  // namespace tributary::train
