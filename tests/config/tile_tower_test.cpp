// The families whose pictures are cut into tiles: how their config.json is read, and what their
// pictures become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/family/all_families.h"
#include "config/family/anyres.h"
#include "config/family/module_work.h"
#include "core/error.h"
#include "core/json.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using ::testing::HasSubstr;

ModelConfig read(const Json& json) { return parse_model_config(json.dump(), "config.json"); }

std::string refusal_of(const Json& json) {
  return input_error_of([&] { (void)read(json); });
}

/// Qwen2.5-0.5B.
Json text_json() {
  return {
      {"model_type", "qwen2"},        {"num_hidden_layers", 24},  {"hidden_size", 896},
      {"num_attention_heads", 14},    {"num_key_value_heads", 2}, {"intermediate_size", 4864},
      {"max_position_embeddings", 8}, {"vocab_size", 151936},     {"tie_word_embeddings", false}};
}

/// InternVL with the ViT of 300M parameters.
Json internvl_json() {
  return {{"model_type", "internvl"},
          {"text_config", text_json()},
          {"image_token_id", 151667},
          {"downsample_ratio", 0.5},
          {"tie_word_embeddings", false},
          {"vision_config",
           {{"model_type", "internvl_vision"},
            {"hidden_size", 1024},
            {"num_hidden_layers", 24},
            {"num_attention_heads", 16},
            {"intermediate_size", 4096},
            {"attention_bias", true},
            {"image_size", {448, 448}},
            {"patch_size", {14, 14}},
            {"norm_type", "layer_norm"},
            {"hidden_act", "gelu"}}}};
}

/// The same model as its authors' code writes it.
Json internvl_chat_json() {
  return {{"model_type", "internvl_chat"},
          {"llm_config", text_json()},
          {"select_layer", -1},
          {"ps_version", "v2"},
          {"template", "internvl2_5"},
          {"force_image_size", 448},
          {"max_dynamic_patch", 12},
          {"dynamic_image_size", true},
          {"use_thumbnail", true},
          {"downsample_ratio", 0.5},
          {"vision_config",
           {{"model_type", "intern_vit_6b"},
            {"hidden_size", 1024},
            {"num_hidden_layers", 24},
            {"num_attention_heads", 16},
            {"intermediate_size", 4096},
            {"qkv_bias", true},
            {"qk_normalization", false},
            {"image_size", 448},
            {"patch_size", 14},
            {"norm_type", "layer_norm"},
            {"initializer_factor", 0.1},
            {"drop_path_rate", 0.1},
            {"hidden_act", "gelu"}}}};
}

/// LLaVA-OneVision with the 26 layers of SigLIP so400m.
Json llava_json() {
  return {{"model_type", "llava_onevision"},
          {"text_config", text_json()},
          {"image_token_index", 151646},
          {"video_token_id", 151647},
          {"vision_config",
           {{"model_type", "siglip_vision_model"},
            {"hidden_size", 1152},
            {"num_hidden_layers", 26},
            {"num_attention_heads", 16},
            {"intermediate_size", 4304},
            {"image_size", 384},
            {"patch_size", 14},
            {"vision_use_head", false}}}};
}

std::int64_t tower_parameters(const Json& json) {
  return count_parameters(read(json)) - count_parameters(read(json["text_config"]));
}

TEST(TileTower, HasTheParametersOfThePublishedTowers) {
  const std::int64_t width = 896;
  const std::int64_t shuffled = 2 * 4096 + 4097 * width + (width + 1) * width;
  EXPECT_EQ(tower_parameters(internvl_json()) - shuffled, 304'012'288);
  EXPECT_EQ(count_parameters(read(internvl_chat_json())), count_parameters(read(internvl_json())));
  // One layer less than SigLIP so400m has.
  const std::int64_t layer = 4 * (1152 * 1152 + 1152) + 2 * 1152 * 4304 + 4304 + 1152 + 4 * 1152;
  const std::int64_t plain = 1153 * width + (width + 1) * width + width;
  EXPECT_EQ(tower_parameters(llava_json()) - plain, 412'987'248 - layer);
}

TEST(TileTower, ReadsTokensAndTiles) {
  const ModelConfig intern = read(internvl_json());
  EXPECT_EQ(intern.vision->tile_side(), 32);
  EXPECT_EQ(tokens_of_tiles(*intern.vision, {13, 32, 32}), 3328);
  EXPECT_EQ(intern.tokens.image_pad, 151667);
  const ModelConfig chat = read(internvl_chat_json());
  EXPECT_EQ(chat.family, ModelFamily::kInternVlChat);
  EXPECT_EQ(chat.tokens.image_pad, 151667);
  EXPECT_FALSE(chat.backbone.tied_head);
  EXPECT_EQ(chat.vision->max_tiles, 12);
  EXPECT_EQ(tokens_of_tiles(*chat.vision, {13, 32, 32}), 3328);
  const ModelConfig llava = read(llava_json());
  EXPECT_EQ(llava.vision->tile_side(), 27);
  EXPECT_EQ(llava.vision->arrangements.size(), 36);
  EXPECT_EQ(llava.vision->max_tiles, 9);
  EXPECT_EQ(llava.tokens.image_pad, 151646);
  EXPECT_EQ(llava.tokens.video_pad, 151647);
  EXPECT_EQ(tokens_of_tiles(*llava.vision, {32, 27, 27}), 32 * 196 + 1) << "a clip";
  EXPECT_EQ(tokens_of_tiles(*llava.vision, {1, 27, 27, {1, 27, 27}}), 730) << "beside others";
}

struct Laid {
  std::int64_t height, width, rows, columns, tokens;
};

// docs/theory/numerics.md, "Tiles", and more sizes from the processor of transformers.
TEST(Anyres, LaysPicturesAsThePublishedProcessor) {
  const VisionConfig vision = *read(llava_json()).vision;
  for (const Laid& laid : std::vector<Laid>{{384, 384, 1, 1, 1485},
                                            {336, 336, 1, 1, 1485},
                                            {480, 640, 2, 2, 2929},
                                            {720, 1280, 2, 4, 5967},
                                            {1080, 1920, 3, 5, 7269},
                                            {1000, 300, 3, 1, 2835},
                                            {1152, 1152, 3, 3, 7371},
                                            {1500, 1500, 4, 4, 7371},
                                            {2304, 2304, 6, 6, 7371},
                                            {9375, 6250, 6, 4, 7362},
                                            {177, 131, 1, 1, 1269},
                                            {1181, 970, 4, 3, 8765}}) {
    SCOPED_TRACE(str(laid.height, "x", laid.width));
    const TileArrangement tiles = choose_arrangement(vision, laid.height, laid.width);
    EXPECT_EQ(tiles, (TileArrangement{laid.rows, laid.columns}));
    const Grid grid{1 + tiles.tiles(), 27, 27, mosaic_of(vision, laid.height, laid.width)};
    EXPECT_EQ(tokens_of_tiles(vision, grid), laid.tokens);
  }
}

TEST(TileTower, WorksOnItsClassTokensAndBeforePaddingIsLeftOut) {
  const ModelConfig intern = read(internvl_json());
  const ModuleWork tower = count_vision_work(intern, {2, 32, 32});
  const double rows = 2 * 1025;
  const double embedding = 2.0 * 2048 * 588 * 1024;
  EXPECT_DOUBLE_EQ(tower.linear,
                   embedding + 24 * 2 * rows * (4.0 * 1024 * 1024 + 2.0 * 1024 * 4096));
  EXPECT_DOUBLE_EQ(tower.attention, 24 * 4.0 * 1024 * 2 * 1025 * 1025);
  EXPECT_DOUBLE_EQ(count_merger_work(intern, {2, 32, 32}).linear,
                   2.0 * 512 * (4096 * 896.0 + 896.0 * 896));
  EXPECT_DOUBLE_EQ(count_merger_work(read(llava_json()), {5, 27, 27, {2, 54, 40}}).linear,
                   2.0 * 5 * 729 * (1152 * 896.0 + 896.0 * 896));
}

struct BadField {
  std::string pointer;
  Json value;
  std::string words;
};

void expect_refusals(const Json& valid, const std::vector<BadField>& bad_fields) {
  ASSERT_EQ(refusal_of(valid), "accepted");
  for (const BadField& bad : bad_fields) {
    Json json = valid;
    json[Json::json_pointer(bad.pointer)] = bad.value;
    EXPECT_THAT(refusal_of(json), HasSubstr(bad.words)) << bad.pointer << " = " << bad.value;
  }
}

TEST(TileTower, RefusesWhatIsNotRun) {
  expect_refusals(
      internvl_json(),
      {{"/text_config/model_type", "gpt2", "text model is not supported"},
       {"/vision_feature_layer", -2, "features of an inner layer are not supported"},
       {"/vision_feature_select_strategy", "full", "selection of features is not supported"},
       {"/projector_hidden_act", "relu", "activation is not supported"},
       {"/downsample_ratio", 2, "at most 1"},
       {"/downsample_ratio", 0.3, "patches of a tile do not divide into tokens"},
       {"/vision_config/image_size", {448, 336}, "sides are not equal"},
       {"/vision_config/norm_type", "batch", "norm is not supported"},
       {"/vision_config/hidden_dropout_prob", 0.1, "dropout is not supported"},
       {"/vision_config/use_mean_pooling", false, "form of InternViT is not supported"},
       {"/vision_config/num_attention_heads", 3, "width does not divide over the heads"}});
  expect_refusals(
      internvl_chat_json(),
      {{"/llm_config/model_type", "internlm2", "take a size whose text model is Qwen2.5"},
       {"/select_layer", -4, "form of InternVL is not supported"},
       {"/ps_version", "v1", "form of InternVL is not supported"},
       {"/pad2square", true, "form of InternVL is not supported"},
       {"/use_thumbnail", false, "true: tiles of a picture, and the whole"},
       {"/template", "Hermes-2", "set the key to internvl2_5, and data.system_prompt"},
       {"/force_image_size", 336, "the image_size of vision_config"},
       {"/vision_config/dropout", 0.1, "dropout is not supported"}});
  expect_refusals(
      llava_json(),
      {{"/vision_config/model_type", "clip_vision_model", "vision tower is not supported"},
       {"/vision_config/vision_use_head", true, "pooling head is not supported"},
       {"/vision_config/attention_dropout", 0.1, "dropout is not supported"},
       {"/vision_config/hidden_act", "gelu", "activation is not supported"},
       {"/vision_aspect_ratio", "pad", "aspect ratio of pictures is not supported"},
       {"/vision_aspect_ratio", "anyres_max_", "aspect ratio of pictures is not supported"},
       {"/image_grid_pinpoints", {{384, 500}}, "pinpoint is no multiple of a tile"},
       {"/image_grid_pinpoints", {384}, "a list of pairs of whole numbers"},
       {"/image_grid_pinpoints", Json::array(), "no pinpoints"},
       {"/image_token_index", 151936, "token id outside the vocabulary"}});
}

}  // namespace
}  // namespace tributary::config
