#include "train/balance/measured_times.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "train/balance/predict_load.h"

namespace tributary::train {
namespace {

constexpr const char* kModel = R"({"model_type": "qwen2_5_vl", "hidden_size": 32,
 "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
 "num_key_value_heads": 1, "vocab_size": 64, "tie_word_embeddings": true,
 "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
 "vision_config": {"model_type": "qwen2_5_vl", "depth": 2, "hidden_size": 32,
   "intermediate_size": 48, "num_heads": 2, "in_channels": 3, "out_hidden_size": 32,
   "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 56,
   "fullatt_block_indexes": [1]}})";

/// A model directory, and a profile of it in which every layer takes 1000 ns an item forward and
/// 2000 backward; attention takes 10 ns a pair, and twice that.
class MeasuredTimesTest : public testing::Test {
 protected:
  MeasuredTimesTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "config.json") << kModel;
    config_.model.path = folder_;
    config_.batch.costs = folder_ / "profile.json";
    profile_.model = "tiny " + config::model_digest(kModel);
    for (const auto& [module, layer] :
         std::vector<std::pair<std::string, std::string>>{{"backbone", "embedding"},
                                                          {"backbone", "block"},
                                                          {"backbone", "head"},
                                                          {"projector", "projector"},
                                                          {"vision", "patch_embedding"},
                                                          {"vision", "block"},
                                                          {"vision", "window_block"}}) {
      config::ProfileTable table{.module = module, .layer = layer, .threads = 1};
      for (const std::int64_t tokens : {256, 4096})
        table.points.push_back({.tokens = {tokens},
                                .forward = {1000 * tokens},
                                .input_gradient = {1000 * tokens},
                                .weight_gradient = {1000 * tokens},
                                .recompute = {1000 * tokens}});
      if (layer.ends_with("block"))
        for (const std::int64_t attended : {16, 4096})
          table.attention.push_back({.attended = double(attended),
                                     .tokens = {4096},
                                     .forward = {4096 * attended * 10},
                                     .gradient = {4096 * attended * 20}});
      profile_.layers.push_back(table);
    }
    plan_.modules = {{.name = "backbone"}};
  }
  ~MeasuredTimesTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] MeasuredTimes times() {
    std::ofstream(config_.batch.costs) << config::write_profile(profile_);
    return MeasuredTimes(config_, plan_, /*ranks=*/1, /*threads=*/1);
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      str("measured_times.", testing::UnitTest::GetInstance()->current_test_info()->name());
  config::RunConfig config_;
  config::Plan plan_;
  config::Profile profile_{.device = "cpu", .cores = 1};
};

TEST_F(MeasuredTimesTest, CountsItemsAndPairsOfEveryLayer) {
  const MeasuredTimes measured = times();
  // Embedding, head and two blocks; attention of the blocks.
  for (const double tokens : {40.0, 700.0, 3000.0})
    EXPECT_NEAR(double(measured.time_of("backbone", tokens, tokens * tokens).count),
                4 * 3000 * tokens + 2 * 30 * tokens * tokens, 30 * tokens);
  // Two blocks, one of them in windows of 4 x 4 patches, and an embedding whose input has no
  // gradient.
  const Grid clip{3, 20, 10};
  const double tower = 600 * (2 * 3000.0 + 2000 + 30 * 200 + 30 * 16);
  EXPECT_NEAR(double(measured.time_of("vision", clip).count), tower, 2e3);
  EXPECT_NEAR(double(measured.time_of("projector", clip).count), 600 * 3000.0, 2e3);
  EXPECT_EQ(measured.time_of("backbone", 0, 0).count, 0);
}

TEST_F(MeasuredTimesTest, TakeThePlaceOfFlops) {
  const MeasuredTimes measured = times();
  const config::ModelConfig model = config::read_model_config(config_.model.path);
  const Grid image{1, 20, 10};
  const SampleShape sample{
      .tokens = {100}, .target_tokens = {1}, .images = {image}, .videos = {image}};
  const schedule::SampleLoad load = predict_load(model, config_.model, sample, &measured);
  const Nanoseconds media =
      measured.time_of("vision", image) + measured.time_of("projector", image);
  ASSERT_EQ(load.chains.size(), 2U);
  EXPECT_EQ(load.chains[0].time, media * 2);
  EXPECT_EQ(load.chains[0].rows, 400);
  EXPECT_EQ(load.chains[1].time, measured.time_of("backbone", 100, 100 * 100));
  EXPECT_EQ(media_cost(model, config_.model, "vision", &measured)(image), media.count);
}

TEST_F(MeasuredTimesTest, LeaveOutWhatFrozenModulesDoNot) {
  config_.model.freeze = {"vision"};
  const MeasuredTimes frozen = times();
  const Grid image{1, 20, 10};
  EXPECT_NEAR(double(frozen.time_of("vision", image).count),
              200 * (3 * 1000.0 + 10 * 200 + 10 * 16), 2e3)
      << "forward alone";
  EXPECT_NEAR(double(frozen.time_of("projector", image).count), 200 * 2000.0, 2e3)
      << "weights, and no gradient to pass on";
}

TEST_F(MeasuredTimesTest, RefusesAProfileOfAnotherModelOrWithoutATable) {
  const auto refusal = [this](const std::string& words) {
    EXPECT_THAT([this] { (void)times(); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(words)));
  };
  plan_.modules[0].mesh.tp = 2;
  refusal("expected: backbone.embedding, tp 2, threads 1");
  plan_.modules[0].mesh.tp = 1;
  profile_.model = "tiny 0123456789abcdef";
  refusal("profile is of another model");
}

}  // namespace
}  // namespace tributary::train
