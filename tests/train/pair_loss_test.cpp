#include "train/executor/pair_loss.h"

#include <cmath>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tests/model/tiny_text_model.h"
#include "tests/train/tiny_samples.h"
#include "train/executor/gradients.h"
#include "train/optimizer/optimizer.h"

namespace tributary::train {
namespace {

/// Pairs of text samples; the answers of a pair differ in length.
std::vector<data::EncodedSample> make_pairs(std::int64_t vocab) {
  auto pairs = make_text_samples({9, 3, 14, 5}, vocab);
  const auto rejected = make_text_samples({4, 11, 6, 7}, vocab, /*seed=*/8);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].rejected = std::ssize(rejected[i].tokens);
    pairs[i].tokens.insert(pairs[i].tokens.end(), rejected[i].tokens.begin(),
                           rejected[i].tokens.end());
    pairs[i].targets.insert(pairs[i].targets.end(), rejected[i].targets.begin(),
                            rejected[i].targets.end());
  }
  return pairs;
}

schedule::PackedBins cut_into(int microbatches) {
  schedule::PackedBins bins{{0}, {0, 1, 2, 3}};
  for (int bin = 1; bin <= microbatches; ++bin) bins.first.push_back(4 / microbatches * bin);
  return bins;
}

/// Log-probability of the targets from `first` to `end`, one sequence alone, in f64.
double log_prob(model::Model& model, const data::EncodedSample& pair, std::size_t first,
                std::size_t end) {
  data::EncodedSample alone;
  alone.tokens.assign(pair.tokens.begin() + first, pair.tokens.begin() + end);
  alone.targets.assign(pair.targets.begin() + first, pair.targets.begin() + end);
  const data::EncodedSample* pointer = &alone;
  const Microbatch batch =
      collate({&pointer, 1}, model.config(), config::MropeMode::kOfficial, at::kCPU);
  const at::NoGradGuard no_grad;
  const at::Tensor scores =
      at::log_softmax(model.head(model.forward(batch.batch)).to(at::kDouble), 1);
  double sum = 0;
  for (std::size_t i = 0; i < alone.targets.size(); ++i)
    if (alone.targets[i] != data::kIgnoredTarget)
      sum += scores[static_cast<std::int64_t>(i)][alone.targets[i]].item<double>();
  return sum;
}

class PairsOfAnswers : public testing::Test {
 protected:
  PairsOfAnswers() {
    at::set_num_threads(1);
    const at::NoGradGuard no_grad;
    for (const auto& unit : model_->units())
      unit->shard_value().add_(0.02 * at::sin(at::arange(unit->shard_value().numel())));
  }
  BatchResult accumulate(const config::ObjectiveSection& section, int microbatches) {
    const PairObjective objective{.section = section, .reference = optimizer_.reference()};
    return accumulate_gradients(*model_, pairs_, cut_into(microbatches),
                                {.sources = 2, .pairs = &objective});
  }

  std::unique_ptr<model::Model> model_ =
      model::make_random_model(model::tiny_config(config::ModelFamily::kQwen3));
  std::vector<data::EncodedSample> pairs_ = make_pairs(model_->config().backbone.vocab);
  Optimizer optimizer_{model_->units(), {.groups = {}}, /*keeps_start=*/true};
};

TEST_F(PairsOfAnswers, HaveTheLossesOfTheirSequencesAlone) {
  constexpr double kBeta = 0.3;
  const auto score_all = [&] {
    std::vector<std::pair<double, double>> scores;
    for (const data::EncodedSample& pair : pairs_) {
      const std::size_t split = pair.tokens.size() - static_cast<std::size_t>(pair.rejected);
      scores.emplace_back(log_prob(*model_, pair, 0, split),
                          log_prob(*model_, pair, split, pair.tokens.size()));
    }
    return scores;
  };
  const auto policy = score_all();
  optimizer_.reference()->exchange();
  const auto reference = score_all();
  optimizer_.reference()->exchange();
  double loss = 0;
  PairSums expected;
  for (std::size_t i = 0; i < policy.size(); ++i) {
    const double chosen = kBeta * (policy[i].first - reference[i].first);
    const double rejected = kBeta * (policy[i].second - reference[i].second);
    loss += std::log1p(std::exp(rejected - chosen)) / 4;
    expected += {.pairs = 1,
                 .chosen_reward = chosen,
                 .rejected_reward = rejected,
                 .preferred = chosen > rejected ? 1.0 : 0.0,
                 .chosen_log_prob = policy[i].first,
                 .rejected_log_prob = policy[i].second};
  }
  EXPECT_GT(std::abs(expected.margin()), 0.005);
  BatchResult result = accumulate({.kind = config::ObjectiveKind::kDpo, .beta = kBeta}, 2);
  EXPECT_NEAR(result.loss, loss, 1e-5);
  EXPECT_EQ(result.targets, 4);
  EXPECT_EQ(result.by_source[0].targets, 2);
  EXPECT_EQ(result.pairs.pairs, 4);
  for (std::size_t i = 0; i < expected.numbers().size(); ++i)
    EXPECT_NEAR(*result.pairs.numbers()[i], *expected.numbers()[i], 1e-4) << i;
}

TEST_F(PairsOfAnswers, GiveTheSameGradientsForAnyMicrobatches) {
  for (const config::ObjectiveSection& section :
       {config::ObjectiveSection{
            .kind = config::ObjectiveKind::kDpo, .label_smoothing = 0.2, .sft_weight = 0.5},
        config::ObjectiveSection{.kind = config::ObjectiveKind::kDpo,
        .loss = config::PairLoss::kIpo}}) {
    (void)accumulate(section, 1);
    const at::Tensor once = model::all_gradients(*model_).to(at::kDouble);
    EXPECT_GT(once.norm().item<double>(), 1e-3);
    for (const int microbatches : {2, 4}) {
      (void)accumulate(section, microbatches);
      const at::Tensor found = model::all_gradients(*model_).to(at::kDouble);
      EXPECT_LT(((found - once).norm() / once.norm()).item<double>(), 1e-6) << microbatches;
    }
  }
}

/// The gradient says how the loss changes along itself.
TEST_F(PairsOfAnswers, GiveTheGradientOfTheirLoss) {
  const config::ObjectiveSection section{.kind = config::ObjectiveKind::kDpo, .sft_weight = 0.5};
  (void)accumulate(section, 2);
  const double squared =
      model::all_gradients(*model_).to(at::kDouble).square().sum().item<double>();
  std::vector<at::Tensor> directions;
  for (const auto& unit : model_->units()) directions.push_back(unit->shard_gradient().clone());
  const auto loss_at = [&](double distance) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < directions.size(); ++i)
      model_->units()[i]->shard_value().add_(directions[i], distance);
    return accumulate(section, 2).loss;
  };
  const double length = 1e-2 / std::sqrt(squared);
  const double ahead = loss_at(length);
  const double behind = loss_at(-2 * length);
  EXPECT_NEAR((ahead - behind) / (2 * length) / squared, 1, 0.01);
}

}  // namespace
}  // namespace tributary::train
