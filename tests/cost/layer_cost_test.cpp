#include "cost/layer_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "core/error.h"

namespace tributary::cost {
namespace {

using config::LayerKind;
using config::LayerShape;

config::DeviceModel make_device() {
  return {.name = "a100",
          .matrix_flops_per_s = 312e12,
          .memory_bytes_per_s = 2.04e12,
          .memory = {std::int64_t{80} << 30}};
}

LayerShape qwen_block() {
  return {.width = 3584, .heads = 28, .kv_heads = 4, .head_width = 128, .mlp_width = 18944};
}

PassShape one_sequence(double tokens) {
  return {.tokens = tokens, .squared_tokens = tokens * tokens};
}

TEST(CountLayerFlops, GivesTheWorkedExampleOfQwen25Vl) {
  // One picture of 1080 x 1920: 10764 patches, 180 windows, models of 7B.
  LayerShape block{.width = 1280,
                   .heads = 16,
                   .kv_heads = 16,
                   .head_width = 80,
                   .mlp_width = 3420,
                   .causal = false};
  const PassShape pass = one_sequence(10764);
  const LayerFlops full = count_layer_flops(block, pass);
  EXPECT_NEAR(4 * full.attention, 2.373e12, 2e9);
  const LayerShape patches{.kind = LayerKind::kPatchEmbedding, .input_width = 1176, .width = 1280};
  EXPECT_NEAR(32 * full.linear + count_layer_flops(patches, pass).linear, 13.594e12, 5e9);
  const LayerShape merger{.kind = LayerKind::kProjector,
                          .input_width = 1280,
                          .width = 3584,
                          .hidden_width = 5120,
                          .merge = 4};
  EXPECT_NEAR(count_layer_flops(merger, pass).linear, 0.240e12, 1e9);
  block.window = 64;
  EXPECT_LT(count_layer_flops(block, pass).attention, full.attention / 100);
}

TEST(AttendedPairs, AreTwiceThoseOfACausalWindow) {
  LayerShape block = qwen_block();
  for (const std::int64_t window : {0, 1, 7, 50, 99, 100, 4096}) {
    block.window = window;
    double pairs = 0;  // the diagonal, a half of a square of one, is whole in them
    for (std::int64_t query = 0; query < 100; ++query)
      pairs += double(window == 0 ? query + 1 : std::min(query + 1, window));
    EXPECT_NEAR(attended_pairs(block, one_sequence(100)), 2 * pairs,
                double(window == 0 ? 100 : std::min<std::int64_t>(window, 100)))
        << window;
  }
}

TEST(LayerCost, LeavesOutWhatACausalWindowDoesNotReach) {
  const config::DeviceModel device = make_device();
  LayerShape block = qwen_block();
  const PassShape pass = one_sequence(32'768);
  const Nanoseconds full = layer_cost(device, block, pass, {}).attention_forward;
  block.window = 4096;
  const double share =
      double(layer_cost(device, block, pass, {}).attention_forward.count) / double(full.count);
  EXPECT_NEAR(share, 1 - 0.875 * 0.875, 0.02);
  block.window = 32'768;
  EXPECT_EQ(layer_cost(device, block, pass, {}).attention_forward, full);
}

TEST(LayerCost, LatentsAreCheaperToMakeThanWholeHeads) {
  // A dense layer of DeepSeek-V3.
  const config::DeviceModel device = make_device();
  LayerShape whole{.width = 7168,
                   .heads = 128,
                   .kv_heads = 128,
                   .head_width = 192,
                   .value_width = 128,
                   .mlp_width = 18432};
  LayerShape latent = whole;
  latent.query_rank = 1536;
  latent.kv_rank = 512;
  latent.rope_width = 64;
  const PassShape pass = one_sequence(4096);
  EXPECT_EQ(count_layer_flops(latent, pass).attention, count_layer_flops(whole, pass).attention);
  EXPECT_EQ(count_layer_flops(latent, pass).attention, 2.0 * 4096 * 4096 * 128 * (192 + 128));
  const LayerCost of_latent = layer_cost(device, latent, pass, {});
  const LayerCost of_whole = layer_cost(device, whole, pass, {});
  EXPECT_EQ(of_latent.attention_forward, of_whole.attention_forward);
  EXPECT_LT(of_latent.forward, of_whole.forward);
  EXPECT_LT(of_latent.parameters, of_whole.parameters);
}

TEST(LayerCost, IsNeverFasterThanItsArithmetic) {
  const config::DeviceModel device = make_device();
  for (double tokens = 1; tokens < 1e6; tokens *= 4) {
    for (const std::int64_t tp : {1, 2, 4}) {
      const PassShape pass = one_sequence(tokens);
      const LayerFlops flops = count_layer_flops(qwen_block(), pass);
      const double bound = (flops.linear + flops.attention / 2) / static_cast<double>(tp) /
                           device.matrix_flops_per_s;
      const LayerCost cost = layer_cost(device, qwen_block(), pass, {.tp = tp});
      EXPECT_GE(1e-9 * static_cast<double>(cost.forward.count), bound);
      EXPECT_GE(1e-9 * static_cast<double>((cost.input_gradient + cost.weight_gradient).count),
                2 * bound);
    }
  }
}

TEST(LayerCost, NeverFallsWithTokens) {
  std::vector<LayerShape> layers{qwen_block()};
  layers.push_back({.kind = LayerKind::kHead, .width = 3584, .vocab = 152064});
  layers.push_back({.kind = LayerKind::kEmbedding, .width = 3584, .vocab = 152064});
  layers.push_back({.kind = LayerKind::kProjector,
                    .input_width = 1280,
                    .width = 3584,
                    .hidden_width = 5120,
                    .merge = 4});
  LayerShape mixture = qwen_block();
  mixture.experts = 16;
  mixture.experts_per_token = 2;
  mixture.mlp_width = 1024;
  layers.push_back(mixture);
  for (const LayerShape& layer : layers) {
    for (const AttentionCore core : {AttentionCore::kFused, AttentionCore::kScores}) {
      LayerCost before;
      for (double tokens = 4; tokens < 1e5; tokens *= 1.5) {
        const LayerCost now =
            layer_cost(make_device(), layer, one_sequence(tokens), {.attention = core});
        EXPECT_GE(now.forward, before.forward);
        EXPECT_GE(now.input_gradient, before.input_gradient);
        EXPECT_GE(now.weight_gradient, before.weight_gradient);
        EXPECT_GE(now.activation, before.activation);
        EXPECT_GE(now.activation, now.activation_selective);
        EXPECT_GE(now.activation, now.activation_attention);
        EXPECT_GE(now.activation_attention, now.activation_recomputed);
        before = now;
      }
    }
  }
}

TEST(LayerCost, TakesAnyNumberOfTokensAsAligned) {
  const auto weights = [](double tokens) {
    return static_cast<double>(
        layer_cost(make_device(), qwen_block(), one_sequence(tokens), {}).weight_gradient.count);
  };
  EXPECT_NEAR(weights(8191), weights(8192), 1e-3 * weights(8192));
}

TEST(LayerCost, DoesNothingForNoTokens) {
  const LayerCost cost = layer_cost(make_device(), qwen_block(), {}, {});
  EXPECT_EQ(cost.forward, Nanoseconds{0});
  EXPECT_EQ(cost.activation, Bytes{0});
  EXPECT_GT(cost.parameters, Bytes{0});
}

TEST(LayerCost, KnowsWhatFrozenLayersSave) {
  const PassShape pass = one_sequence(2048);
  const LayerCost full = layer_cost(make_device(), qwen_block(), pass, {});
  const LayerCost behind = layer_cost(make_device(), qwen_block(), pass, {},
                                      {.trains = false, .needs_input_grad = true});
  EXPECT_EQ(behind.forward, full.forward);
  EXPECT_EQ(behind.input_gradient, full.input_gradient);
  EXPECT_EQ(behind.weight_gradient, Nanoseconds{0});
  EXPECT_EQ(behind.optimizer, Bytes{0});
  const LayerCost alone = layer_cost(make_device(), qwen_block(), pass, {},
                                     {.trains = false, .needs_input_grad = false});
  EXPECT_EQ(alone.input_gradient, Nanoseconds{0});
  EXPECT_EQ(alone.activation, Bytes{0});
  const LayerCost first = layer_cost(make_device(), qwen_block(), pass, {},
                                     {.trains = true, .needs_input_grad = false});
  // Its products are differentiated for the norms in front of them.
  EXPECT_EQ(first.input_gradient, full.input_gradient);
  EXPECT_EQ(first.weight_gradient, full.weight_gradient);
}

TEST(LayerCost, KeepsTheBytesOfThePublishedActivationFormula) {
  // s b h (10 + 24/t) + 5 a s^2 b / t of 16-bit GPT blocks (Korthikanti 2022), less dropout masks
  // where none are kept: the block of 22B at s = 2048, t = 8 within 10 %.
  const LayerShape block{.width = 6144,
                         .heads = 64,
                         .kv_heads = 64,
                         .head_width = 96,
                         .mlp_width = 4 * 6144,
                         .mlp_matrices = 2};
  const double s = 2048, b = 4, h = 6144, t = 8, a = 64;
  const PassShape pass{.tokens = s * b, .squared_tokens = s * s * b, .sequences = 4};
  const LayerCost cost =
      layer_cost(make_device(), block, pass, {.tp = 8, .attention = AttentionCore::kScores});
  const double published = s * b * h * (10 + 24 / t) + 5 * a * s * s * b / t;
  EXPECT_NEAR(static_cast<double>(cost.activation.count) / published, 1, 0.1);
  const LayerCost cut =
      layer_cost(make_device(), block, pass,
                 {.tp = 8, .sequence_parallel = true, .attention = AttentionCore::kScores});
  EXPECT_NEAR(static_cast<double>(cut.activation_selective.count) / (34 * s * b * h / t), 1, 0.25);
}

TEST(LayerCost, KeepsTokensThatWereDispatchedToExperts) {
  // Of each token its eight copies, of 2,048 values of 2 bytes, and what comes back of them.
  LayerShape block{.width = 2048,
                   .heads = 32,
                   .kv_heads = 4,
                   .head_width = 128,
                   .mlp_width = 8 * 768,
                   .mlp_matrices = 3};
  const LayerCost dense = layer_cost(make_device(), block, one_sequence(1000), {});
  block.mlp_width = 768;
  block.experts = 128;
  block.experts_per_token = 8;
  const LayerCost mixture = layer_cost(make_device(), block, one_sequence(1000), {});
  EXPECT_EQ(mixture.activation.count - dense.activation.count, 1000 * 2 * 8 * 2048 * 2);
  EXPECT_EQ(mixture.activation_selective, dense.activation_selective);
}

TEST(LayerCost, NamesImpossibleSizes) {
  EXPECT_THAT([] { (void)layer_cost(make_device(), qwen_block(), one_sequence(8), {.tp = 3}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("28 heads, tp 3")));
  EXPECT_THAT(
      [] {
        (void)layer_cost(make_device(), qwen_block(),
                         {.tokens = std::numeric_limits<double>::quiet_NaN()}, {});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("pass of an impossible size")));
}

TEST(VocabOfRank, IsPaddedWhereItIsCut) {
  EXPECT_EQ(vocab_of_rank(50257, 1), 50257);
  EXPECT_EQ(vocab_of_rank(50257, 8), 6400);
}

config::ProfileTable make_table() {
  config::ProfileTable table{.module = "backbone", .layer = "block", .parameters = {1000}};
  const auto point = [](std::int64_t tokens, std::int64_t ns) {
    return config::ProfilePoint{.tokens = {tokens},
                                .forward = {ns},
                                .input_gradient = {ns + 1},
                                .weight_gradient = {ns + 2},
                                .recompute = {ns},
                                .activation = {tokens * 10},
                                .activation_recomputed = {tokens}};
  };
  table.points = {point(100, 1000), point(200, 900), point(400, 2000)};
  return table;
}

TEST(ProfileCost, InterpolatesInTimeAndNeverFalls) {
  const config::ProfileTable table = make_table();
  const auto forward = [&](double tokens) {
    return layer_cost(table, {200}, {.tokens = tokens}).forward.count;
  };
  EXPECT_EQ(forward(50), 600);  // from the launch of an empty pass to the first point
  EXPECT_EQ(forward(100), 1000);
  EXPECT_EQ(forward(150), 1000);  // the second point was faster than the first
  EXPECT_EQ(forward(300), 1500);
  EXPECT_EQ(forward(400), 2000);
  EXPECT_EQ(layer_cost(table, {200}, {.tokens = 200}).activation, Bytes{2000});
}

TEST(ProfileCost, FlagsWhatLiesOutsideTheGrid) {
  const config::ProfileTable table = make_table();
  const LayerCost inside = layer_cost(table, {200}, {.tokens = 400});
  const LayerCost outside = layer_cost(table, {200}, {.tokens = 800});
  EXPECT_FALSE(inside.outside_grid);
  EXPECT_TRUE(outside.outside_grid);
  EXPECT_EQ(outside.forward, inside.forward * 2);  // the throughput of the last point
}

}  // namespace
}  // namespace tributary::cost
