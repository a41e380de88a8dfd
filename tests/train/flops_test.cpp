#include "train/balance/flops.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace tributary::train {
namespace {

/// The work of one module.
const config::ModuleWork& work_of(const ForwardFlops& forward, const std::string& module) {
  return *std::ranges::find(forward, module, &config::ModuleWork::module);
}

config::ModelConfig make_qwen2_5_vl_7b() {
  config::ModelConfig config;
  config.family = config::ModelFamily::kQwen2_5Vl;
  config.backbone = {.layers = 28,
                     .width = 3584,
                     .heads = 28,
                     .kv_heads = 4,
                     .head_width = 128,
                     .mlp_width = 18944,
                     .vocab = 152064,
                     .max_positions = 128000,
                     .rope_theta = 1e6,
                     .norm_epsilon = 1e-6,
                     .qkv_bias = true,
                     .qk_norm = false,
                     .tied_head = false,
                     .mrope_section = {16, 24, 24}};
  config.vision = config::VisionConfig{.layers = 32,
                                       .width = 1280,
                                       .heads = 16,
                                       .mlp_width = 3420,
                                       .output_width = 3584,
                                       .full_attention_layers = {7, 15, 23, 31}};
  return config;
}

SampleShape shape_of_image(Grid grid, std::int64_t tokens) {
  return {.tokens = {tokens}, .target_tokens = {0}, .images = {grid}, .videos = {}};
}

// The worked example of a 1080 x 1920 image: 78 x 138 patches, 2691 tokens, 180 windows.
TEST(CountForward, GivesTheImageOfTheWorkedExample) {
  const ForwardFlops flops =
      count_forward(make_qwen2_5_vl_7b(), shape_of_image({1, 78, 138}, 2691));
  const config::ModuleWork& vision = work_of(flops, "vision");
  const double projector = work_of(flops, "projector").linear;
  EXPECT_NEAR(vision.linear, 13.594e12, 0.001e12);
  EXPECT_NEAR(vision.outside_layers, 2.0 * 78 * 138 * 1176 * 1280, 1);
  EXPECT_NEAR(projector, 0.240e12, 0.001e12);
  EXPECT_NEAR(vision.attention, 2.373e12 + 0.0958e12, 0.001e12);
  EXPECT_NEAR(vision.linear + projector + vision.attention, 16.30e12, 0.01e12);
  EXPECT_NEAR(work_of(flops, "backbone").linear, 2.0 * 2691 * 6.5253e9, 0.01e12);
}

TEST(CountForward, CountsAPairAsItsTwoSequences) {
  const config::ModelConfig model = make_qwen2_5_vl_7b();
  ForwardFlops both =
      count_forward(model, {.tokens = {18}, .target_tokens = {4}, .images = {}, .videos = {}});
  add_work(both, count_forward(model,
                               {.tokens = {12}, .target_tokens = {3}, .images = {}, .videos = {}}));
  const ForwardFlops pair = count_forward(
      model, {.tokens = {30}, .target_tokens = {7}, .rejected = {12}, .images = {}, .videos = {}});
  const config::ModuleWork& backbone = work_of(pair, "backbone");
  EXPECT_DOUBLE_EQ(backbone.linear, work_of(both, "backbone").linear);
  EXPECT_DOUBLE_EQ(backbone.attention, work_of(both, "backbone").attention);
  const TrainFlops alone = count_inference(pair, {});
  EXPECT_DOUBLE_EQ(3 * alone.full, count_training(pair, {}, {}).full);
}

// The same image: plain MLPs of four widths, and each frame attends to all of itself.
TEST(CountForward, GivesTheImageOfQwen2Vl) {
  config::ModelConfig config = make_qwen2_5_vl_7b();
  config.family = config::ModelFamily::kQwen2Vl;
  config.vision->kind = config::VisionClass::kQwen2Vl;
  config.vision->mlp_width = 5120;
  config.vision->window = 0;
  config.vision->full_attention_layers.clear();
  const ForwardFlops flops = count_forward(config, shape_of_image({1, 78, 138}, 2691));
  const double patches = 78 * 138;
  const config::ModuleWork& vision = work_of(flops, "vision");
  EXPECT_DOUBLE_EQ(vision.linear, 2 * patches * (1176 * 1280 + 32.0 * 12 * 1280 * 1280));
  EXPECT_NEAR(vision.attention, 18.98e12, 0.01e12);
  EXPECT_DOUBLE_EQ(work_of(flops, "projector").linear,
                   2 * 2691.0 * (5120.0 * 5120 + 5120.0 * 3584));
}

// A clip of two steps with Qwen3-VL-8B: three levels of features have mergers of their own.
TEST(CountForward, GivesTheDeepstackMergersOfQwen3Vl) {
  config::ModelConfig config = make_qwen2_5_vl_7b();
  config.family = config::ModelFamily::kQwen3Vl;
  config.vision = config::VisionConfig{.kind = config::VisionClass::kQwen3Vl,
                                       .layers = 27,
                                       .width = 1152,
                                       .heads = 16,
                                       .mlp_width = 4304,
                                       .output_width = 4096,
                                       .patch = 16,
                                       .window = 0,
                                       .full_attention_layers = {},
                                       .deepstack_layers = {8, 16, 24}};
  const ForwardFlops flops = count_forward(
      config, {.tokens = {432}, .target_tokens = {0}, .images = {}, .videos = {{2, 24, 36}}});
  const double frame = 24 * 36;
  const config::ModuleWork& vision = work_of(flops, "vision");
  const double block = 4.0 * 1152 * 1152 + 2.0 * 1152 * 4304;
  EXPECT_DOUBLE_EQ(vision.linear, 2 * 2 * frame * (1536 * 1152 + 27 * block));
  EXPECT_DOUBLE_EQ(vision.attention, 4.0 * 1152 * 27 * 2 * frame * frame);
  EXPECT_DOUBLE_EQ(work_of(flops, "projector").linear,
                   4 * (2 * 432 * (4608.0 * 4608 + 4608.0 * 4096)));
}

// A sound of 451 frames with Qwen2.5-Omni: chunks of 200, 200 and 51 frames are 100, 100 and 26
// positions, which attend only to their own chunk, and 113 tokens.
TEST(CountForward, GivesTheChunksOfASoundOfOmni) {
  config::ModelConfig config = make_qwen2_5_vl_7b();
  config.family = config::ModelFamily::kQwen2_5OmniThinker;
  config.audio = {.layers = 32,
                  .width = 1280,
                  .heads = 20,
                  .mlp_width = 5120,
                  .output_width = 3584,
                  .positions = 15000,
                  .chunk = 200};
  const ForwardFlops flops = count_forward(
      config,
      {.tokens = {113}, .target_tokens = {0}, .images = {}, .videos = {}, .sounds = {{1, 1, 451}}});
  const config::ModuleWork& audio = work_of(flops, "audio");
  EXPECT_DOUBLE_EQ(audio.outside_layers, 2 * 226 * 3 * (2.0 * 128 * 1280 + 1280.0 * 1280));
  EXPECT_DOUBLE_EQ(audio.linear - audio.outside_layers, 2 * 226 * 32 * (12.0 * 1280 * 1280));
  EXPECT_DOUBLE_EQ(audio.attention, 4.0 * 1280 * 32 * (100 * 100 + 100 * 100 + 26 * 26));
  EXPECT_DOUBLE_EQ(work_of(flops, "audio_projector").linear, 2.0 * 113 * 1280 * 3584);
}

// One sound of 30 s of Qwen2-Audio-7B: two convolutions, 32 blocks, 750 tokens.
TEST(CountForward, GivesTheConstantsOfASound) {
  config::ModelConfig config = make_qwen2_5_vl_7b();
  config.vision = {};
  config.audio = {
      .layers = 32, .width = 1280, .heads = 20, .mlp_width = 5120, .output_width = 4096};
  const SampleShape shape{
      .tokens = {750}, .target_tokens = {0}, .images = {}, .videos = {}, .sounds = {{1, 1, 3000}}};
  const ForwardFlops flops = count_forward(config, shape);
  const config::ModuleWork& audio = work_of(flops, "audio");
  EXPECT_NEAR(audio.outside_layers, 2.95e9 + 14.75e9, 0.01e9);
  EXPECT_NEAR(audio.linear - audio.outside_layers, 1.887e12, 0.001e12);
  EXPECT_NEAR(audio.attention, 0.3686e12, 0.0001e12);
  EXPECT_NEAR(work_of(flops, "projector").linear, 2.0 * 750 * 1280 * 4096, 1);
}

// Table of constants: forward linear GF/token includes the head; attention at 8192 is halved there.
TEST(CountForward, GivesTheConstantsPerTokenOfTheBackbone) {
  config::ModelConfig config = make_qwen2_5_vl_7b();
  config.vision.reset();
  const double tokens = 8192;
  const ForwardFlops flops = count_forward(
      config, {.tokens = {8192}, .target_tokens = {8192}, .images = {}, .videos = {}});
  ASSERT_EQ(flops.size(), 1) << "the backbone alone";
  EXPECT_NEAR(flops[0].linear / tokens, 14.141e9, 0.001e9);
  EXPECT_NEAR(flops[0].real_attention() / tokens, 1.644e9, 0.001e9);
  EXPECT_NEAR(count_training(flops, {}, {}).full / tokens, 52.29e9, 0.01e9);
}

TEST(CountTraining, CountsFrozenModulesByWhatTheirBackwardDoes) {
  const ForwardFlops forward{
      {.module = "vision", .linear = 1, .attention = 10},
      {.module = "projector", .linear = 100},
      {.module = "backbone", .linear = 1000, .attention = 10000, .is_causal = true}};
  const auto train = [&](std::vector<std::string> frozen) {
    return count_training(forward, frozen, {}).full;
  };
  EXPECT_DOUBLE_EQ(train({}), 3 * 11111);
  EXPECT_DOUBLE_EQ(train({"vision"}), 11 + 3 * 100 + 3 * 11000);
  EXPECT_DOUBLE_EQ(train({"backbone"}), 3 * 111 + 2 * 1000 + 3 * 10000);
  EXPECT_DOUBLE_EQ(train({"vision", "projector", "backbone"}), 11111);
  EXPECT_DOUBLE_EQ(count_training(forward, {}, {}).causal, 3 * (1111 + 5000));
}

TEST(CountTraining, CountsAdaptersBesideFrozenWeights) {
  const ForwardFlops forward{
      {.module = "vision", .linear = 1000, .attention = 10},
      {.module = "backbone", .linear = 50000, .outside_layers = 10000, .is_causal = true}};
  const AdapterWork adapters{.trains_alone = true, .shares = {{"backbone", 0.01}}};
  const auto train = [&](std::vector<std::string> frozen) {
    return count_training(forward, frozen, {}, adapters).full;
  };
  // The weights take a forward and the gradient of their input, adapters both gradients.
  EXPECT_DOUBLE_EQ(train({"vision"}), 1010 + 2 * 50000 + 3 * 400);
  EXPECT_DOUBLE_EQ(train({}), 2 * 1000 + 3 * 10 + 2 * 50000 + 3 * 400);
}

TEST(CountTraining, CountsRecomputeAsHardwareWorkAlone) {
  const ForwardFlops forward{
      {.module = "vision", .linear = 1000, .outside_layers = 1, .mlp = 600, .attention = 100},
      {.module = "projector", .linear = 20000},
      {.module = "backbone",
       .linear = 300007,
       .outside_layers = 7,
       .mlp = 200000,
       .attention = 8000000,
       .is_causal = true,
       .layers = 5}};
  using config::RecomputePlan::kAttention;
  using config::RecomputePlan::kFull;
  using config::RecomputePlan::kSelective;
  const auto added = [&](std::vector<std::string> frozen,
                         const std::vector<config::ModuleRecompute>& recomputed) {
    const TrainFlops with = count_training(forward, frozen, recomputed);
    const TrainFlops without = count_training(forward, frozen, {});
    EXPECT_EQ(with.causal, without.causal);
    EXPECT_EQ(with.full, without.full);
    EXPECT_EQ(without.hardware, without.causal);
    return with.hardware - without.hardware;
  };
  EXPECT_DOUBLE_EQ(added({}, {{"vision"}}), 999 + 100) << "the patch embedding is in no layer";
  EXPECT_DOUBLE_EQ(added({}, {{"projector"}}), 20000);
  EXPECT_DOUBLE_EQ(added({}, {{"backbone"}}), 300000 + 4000000) << "nor is the head";
  EXPECT_DOUBLE_EQ(added({}, {{"vision"}, {"projector"}, {"backbone"}}), 1099 + 20000 + 4300000);
  EXPECT_DOUBLE_EQ(added({}, {{"vision", kSelective}, {"backbone", kSelective}}), 600 + 200000);
  EXPECT_DOUBLE_EQ(added({}, {{"vision", kAttention}, {"backbone", kAttention}}),
                   399 + 100 + 100000 + 4000000);
  EXPECT_DOUBLE_EQ(added({}, {{"backbone", kFull, 2}}), 3 * 4300000 / 5.0) << "layers 0, 2 and 4";
  EXPECT_DOUBLE_EQ(added({}, {{"backbone", kSelective, 3}}), 2 * 200000 / 5.0);
  EXPECT_DOUBLE_EQ(added({"vision"}, {{"vision"}}), 0) << "no backward, nothing to run again for";
  EXPECT_DOUBLE_EQ(added({"backbone"}, {{"backbone"}}), 4300000) << "its input gradient needs it";
}

}  // namespace
}  // namespace tributary::train
