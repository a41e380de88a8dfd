#include "train/executor/gradients.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/error.h"
#include "tests/model/tiny_text_model.h"
#include "tests/train/tiny_samples.h"
#include "train/profile/live_bytes.h"

namespace tributary::train {
namespace {

std::vector<data::EncodedSample> mixed_samples(const config::ModelConfig& config) {
  auto samples = make_text_samples({9, 3, 14, 5, 8, 21, 4, 11}, /*vocab=*/57);
  add_image(samples[1], config, {1, 4, 6}, 1);
  add_image(samples[4], config, {1, 2, 2}, 2);
  add_image(samples[4], config, {1, 10, 4}, 3);
  return samples;
}

/// Cuts samples in turn into this many microbatches.
schedule::PackedBins cut_into(int microbatches, std::size_t samples) {
  schedule::PackedBins bins;
  bins.first.push_back(0);
  for (int bin = 0; bin < microbatches; ++bin) {
    for (auto i = static_cast<std::size_t>(bin); i < samples;
         i += static_cast<std::size_t>(microbatches))
      bins.items.push_back(static_cast<std::int32_t>(i));
    bins.first.push_back(static_cast<std::int32_t>(bins.items.size()));
  }
  return bins;
}

TEST(AccumulateGradients, GivesTheSameGradientsFor1To8Microbatches) {
  at::set_num_threads(1);
  const config::ModelConfig config = model::tiny_vision_model();
  const auto model = model::make_random_model(config);
  const auto samples = mixed_samples(config);
  at::Tensor one_pass;
  double loss = 0;
  for (const int microbatches : {1, 2, 4, 8}) {
    const BatchResult result = accumulate_gradients(
        *model, samples, cut_into(microbatches, samples.size()), {.sources = 2});
    const at::Tensor gradients = model::all_gradients(*model).to(at::kDouble);
    if (microbatches == 1) {
      one_pass = gradients;
      loss = result.loss;
      EXPECT_GT(one_pass.norm().item<double>(), 1e-3);
    }
    const double error = (gradients - one_pass).norm().item<double>();
    EXPECT_LT(error / one_pass.norm().item<double>(), 1e-6) << microbatches << " microbatches";
    EXPECT_NEAR(result.loss / loss, 1, 1e-6) << microbatches << " microbatches";
  }
}

TEST(AccumulateGradients, DividesByTheTargetsOfTheGlobalBatch) {
  const config::ModelConfig config = model::tiny_config(config::ModelFamily::kQwen2);
  const auto model = model::make_random_model(config);
  const auto samples = make_text_samples({9, 3, 14, 5}, config.backbone.vocab);
  const BatchResult result =
      accumulate_gradients(*model, samples, cut_into(2, samples.size()), {.sources = 2});
  // The reference: one sample at a time, log softmax in f64, mean over all target tokens.
  double sum = 0;
  std::int64_t targets = 0;
  std::vector<SourceLoss> by_source(2);
  const at::NoGradGuard no_grad;
  for (const data::EncodedSample& sample : samples) {
    const data::EncodedSample* pointer = &sample;
    const Microbatch alone = collate({&pointer, 1}, config, config::MropeMode::kOfficial, at::kCPU);
    const at::Tensor scores =
        at::log_softmax(model->head(model->forward(alone.batch)).to(at::kDouble), 1);
    for (std::size_t i = 0; i < sample.targets.size(); ++i) {
      if (sample.targets[i] == data::kIgnoredTarget) continue;
      const double loss = -scores[static_cast<std::int64_t>(i)][sample.targets[i]].item<double>();
      sum += loss;
      ++targets;
      by_source[static_cast<std::size_t>(sample.source)] += {.sum = loss, .targets = 1};
    }
  }
  EXPECT_NEAR(result.loss, sum / static_cast<double>(targets), 1e-5);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(result.by_source[i].targets, by_source[i].targets);
    EXPECT_NEAR(result.by_source[i].mean(), by_source[i].mean(), 1e-5);
  }
}

TEST(AccumulateGradients, StartsFromZeroEachTime) {
  const config::ModelConfig config = model::tiny_config(config::ModelFamily::kQwen3);
  const auto model = model::make_random_model(config);
  const auto samples = make_text_samples({9, 3}, config.backbone.vocab);
  const auto bins = cut_into(1, samples.size());
  (void)accumulate_gradients(*model, samples, bins, {.sources = 2});
  const at::Tensor first = model::all_gradients(*model);
  (void)accumulate_gradients(*model, samples, bins, {.sources = 2});
  EXPECT_TRUE(at::equal(model::all_gradients(*model), first));
}

TEST(AccumulateGradients, GivesTheSameGradientsWithRecompute) {
  const config::ModelConfig config = model::tiny_vision_model();
  const auto samples = mixed_samples(config);
  const auto kept = model::make_random_model(config);
  const auto run_again = model::make_random_model(config);
  run_again->set_recompute(std::vector<config::ModuleRecompute>{{"vision"}, {"backbone"}});
  for (const auto* model : {&kept, &run_again})
    (void)accumulate_gradients(**model, samples, cut_into(2, samples.size()), {.sources = 2});
  EXPECT_TRUE(at::equal(model::all_gradients(*kept), model::all_gradients(*run_again)));
}

TEST(AccumulateGradients, KeepsActivationsOfTheLayersThatDoNotRunAgain) {
  config::ModelConfig config = model::tiny_config(config::ModelFamily::kQwen3);
  config.backbone.layers = 5;
  const auto model = model::make_random_model(config);
  const model::PackedBatch batch = model::random_pack({5, 17, 8}, 61);
  const auto kept = [&](const std::vector<config::ModuleRecompute>& recompute) {
    model->set_recompute(recompute);
    const LiveBytes live;
    const at::Tensor hidden = model->forward(batch);
    return live.now();
  };
  for (const auto level : {config::RecomputePlan::kFull, config::RecomputePlan::kSelective}) {
    const std::int64_t none = kept({});
    const std::int64_t saved = (none - kept({{"backbone", level}})) / 5;  // of a layer
    EXPECT_GT(saved, 0);
    EXPECT_EQ(none - kept({{"backbone", level, 2}}), 3 * saved) << "layers 0, 2 and 4";
    EXPECT_EQ(none - kept({{"backbone", level, 4}}), 2 * saved) << "layers 0 and 4";
  }
}

TEST(AccumulateGradients, GivesAFrozenModuleNoGradientBuffer) {
  const config::ModelConfig config = model::tiny_vision_model();
  const auto samples = mixed_samples(config);
  const auto trained = model::make_random_model(config);
  const auto frozen = model::make_random_model(config);
  for (const auto& unit : frozen->units()) {
    const at::Tensor values = unit->shard_value().clone();
    unit->materialize(at::kCPU, at::kFloat, unit->module() != "vision");
    const at::NoGradGuard no_grad;
    at::Tensor into = unit->shard_value();
    into.copy_(values);
  }
  const auto bins = cut_into(2, samples.size());
  (void)accumulate_gradients(*trained, samples, bins, {.sources = 2});
  (void)accumulate_gradients(*frozen, samples, bins, {.sources = 2});
  int frozen_units = 0;
  for (std::size_t i = 0; i < frozen->units().size(); ++i) {
    const parallel::Unit& unit = *frozen->units()[i];
    if (unit.module() == "vision") {
      EXPECT_FALSE(unit.shard_gradient().defined()) << unit.name();
      ++frozen_units;
    } else {
      EXPECT_TRUE(at::equal(unit.shard_gradient(), trained->units()[i]->shard_gradient()))
          << unit.name();
    }
  }
  EXPECT_GT(frozen_units, 0);
}

TEST(AccumulateGradients, ComputesNothingOfABatchWithoutTargets) {
  const config::ModelConfig config = model::tiny_config(config::ModelFamily::kQwen2);
  const auto model = model::make_random_model(config);
  auto samples = make_text_samples({4}, config.backbone.vocab);
  (void)accumulate_gradients(*model, samples, cut_into(1, 1), {.sources = 2});
  const at::Tensor before = model::all_gradients(*model).clone();
  samples[0].targets.assign(4, data::kIgnoredTarget);
  const BatchResult result = accumulate_gradients(*model, samples, cut_into(1, 1), {.sources = 2});
  EXPECT_EQ(result.targets, 0);
  EXPECT_TRUE(std::isnan(result.loss));
  ASSERT_EQ(result.by_source.size(), 2u);
  EXPECT_EQ(result.by_source[0].targets, 0);
  EXPECT_TRUE(result.passes.empty());
  EXPECT_TRUE(at::equal(model::all_gradients(*model), before));
}

}  // namespace
}  // namespace tributary::train
