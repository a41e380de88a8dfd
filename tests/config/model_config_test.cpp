#include "config/family/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file/safetensors.h"
#include "core/json.h"
#include "tests/config/published_models.h"
#include "tests/config/temporary_folder.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelConfig read(const Json& json) {
  const TemporaryFolder folder;
  folder.write("config.json", json.dump());
  return read_model_config(folder.path());
}

std::string refusal_of_text(const std::string& text) {
  const TemporaryFolder folder;
  folder.write("config.json", text);
  return input_error_of([&] { (void)read_model_config(folder.path()); });
}
std::string refusal_of(const Json& json) { return refusal_of_text(json.dump()); }

/// The layout that transformers 5.x writes: nested, rope in one dictionary.
Json nested(Json flat) {
  const auto move_keys = [&flat](Json& into) {
    for (const char* key :
         {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
          "intermediate_size", "vocab_size", "hidden_act", "max_position_embeddings",
          "rms_norm_eps", "use_sliding_window", "sliding_window", "max_window_layers"})
      into[key] = flat[key], flat.erase(key);
  };
  Json text;
  move_keys(text);
  text["model_type"] = "qwen2_5_vl_text";
  text["rope_parameters"] = {{"rope_type", "default"},
                             {"rope_theta", flat["rope_theta"]},
                             {"mrope_section", flat["rope_scaling"]["mrope_section"]}};
  flat.erase("rope_theta");
  flat.erase("rope_scaling");
  flat["text_config"] = text;
  flat["vision_config"]["in_channels"] = flat["vision_config"]["in_chans"];
  flat["vision_config"].erase("in_chans");
  flat["vision_config"]["rope_parameters"] = {{"rope_type", "axial"}, {"rope_theta", 10000.0}};
  return flat;
}

Json vl_json() { return published_json(published_models()[14]); }    // 7B
Json text_json() { return published_json(published_models()[0]); }   // Qwen2.5-0.5B
Json qwen3_json() { return published_json(published_models()[7]); }  // Qwen3-0.6B

TEST(CountParameters, EqualsThePublishedSizes) {
  for (const Published& model : published_models()) {
    SCOPED_TRACE(model.name);
    EXPECT_EQ(count_parameters(read(published_json(model))), model.parameters);
  }
}

TEST(ReadModelConfig, ReadsEveryFieldOfAFlatFile) {
  const ModelConfig model = read(vl_json());
  EXPECT_EQ(model.family, ModelFamily::kQwen2_5Vl);
  EXPECT_EQ(model.backbone.head_width, 128);
  EXPECT_EQ(model.backbone.max_positions, 32768);
  EXPECT_EQ(model.backbone.rope_theta, 1e6);
  EXPECT_EQ(model.backbone.norm_epsilon, 1e-6);
  EXPECT_TRUE(model.backbone.qkv_bias);
  EXPECT_FALSE(model.backbone.qk_norm);
  EXPECT_FALSE(model.backbone.tied_head);
  EXPECT_THAT(model.backbone.mrope_section, ElementsAre(16, 24, 24));
  ASSERT_TRUE(model.vision.has_value());
  EXPECT_EQ(model.vision->layers, 32);
  EXPECT_EQ(model.vision->width, 1280);
  EXPECT_EQ(model.vision->heads, 16);
  EXPECT_EQ(model.vision->mlp_width, 3420);
  EXPECT_EQ(model.vision->output_width, 3584);
  EXPECT_EQ(model.vision->patch_width(), 1176);
  EXPECT_EQ(model.vision->merge, 2);
  EXPECT_EQ(model.vision->window, 112);
  EXPECT_EQ(model.vision->tokens_per_second, 2);
  EXPECT_THAT(model.vision->full_attention_layers, ElementsAre(7, 15, 23, 31));
  EXPECT_EQ(model.tokens.image_pad, 151655);
  EXPECT_EQ(model.tokens.video_pad, 151656);
  EXPECT_EQ(model.tokens.vision_start, 151652);
  EXPECT_EQ(model.tokens.vision_end, 151653);
}

TEST(ReadModelConfig, ReadsTheNestedLayoutAsTheFlatOne) {
  for (const std::size_t index : {13, 14, 15, 16}) {
    const Json flat = published_json(published_models()[index]);
    const ModelConfig from_flat = read(flat);
    const ModelConfig from_nested = read(nested(flat));
    EXPECT_EQ(count_parameters(from_flat), count_parameters(from_nested));
    EXPECT_EQ(from_flat.backbone.tied_head, from_nested.backbone.tied_head);
    EXPECT_EQ(from_flat.backbone.rope_theta, from_nested.backbone.rope_theta);
    EXPECT_EQ(from_flat.backbone.mrope_section, from_nested.backbone.mrope_section);
    EXPECT_EQ(from_flat.backbone.norm_epsilon, from_nested.backbone.norm_epsilon);
    EXPECT_EQ(from_flat.vision->channels, from_nested.vision->channels);
  }
}

TEST(ReadModelConfig, TakesTheDefaultsOfTheClassForMissingFields) {
  const ModelConfig qwen2 = read({{"model_type", "qwen2"}});
  EXPECT_EQ(qwen2.backbone.layers, 32);
  EXPECT_EQ(qwen2.backbone.mlp_width, 22016);
  EXPECT_EQ(qwen2.backbone.rope_theta, 1e4);
  EXPECT_EQ(qwen2.backbone.norm_epsilon, 1e-6);
  EXPECT_THAT(qwen2.backbone.mrope_section, IsEmpty());
  EXPECT_FALSE(qwen2.vision.has_value());
  EXPECT_EQ(read({{"model_type", "qwen3"}}).backbone.head_width, 128);

  Json vl = vl_json();
  for (const char* key : {"rms_norm_eps", "rope_theta"}) vl.erase(key);
  vl["vision_config"].erase("tokens_per_second");
  EXPECT_EQ(read(vl).backbone.norm_epsilon, 1e-5);
  EXPECT_EQ(read(vl).backbone.rope_theta, 1e6);
  EXPECT_EQ(read(vl).vision->tokens_per_second, 4);
}

TEST(ReadModelConfig, FindsTiesAndTokensInEitherPlace) {
  Json json = nested(vl_json());
  json.erase("tie_word_embeddings");
  json["text_config"]["tie_word_embeddings"] = true;
  json["text_config"]["image_token_id"] = 7;
  json.erase("image_token_id");
  EXPECT_TRUE(read(json).backbone.tied_head);
  EXPECT_EQ(read(json).tokens.image_pad, 7);
  json["image_token_id"] = 9;  // the top level goes first
  EXPECT_EQ(read(json).tokens.image_pad, 9);
}

TEST(ReadModelConfig, TakesHeadDimFromTheFile) {
  Json json = text_json();
  json["head_dim"] = 32;
  EXPECT_EQ(read(json).backbone.head_width, 32);
  json["head_dim"] = nullptr;
  EXPECT_EQ(read(json).backbone.head_width, 64);
  json["num_key_value_heads"] = nullptr;
  EXPECT_EQ(read(json).backbone.kv_heads, 14);
}

TEST(ReadModelConfig, NamesAMissingFile) {
  const TemporaryFolder folder;
  try {
    (void)read_model_config(folder.path("nowhere"));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("nowhere/config.json"), HasSubstr("No such file"),
                                    HasSubstr("model.path")));
  }
}

TEST(ReadModelConfig, FindsTheThinkerInAWholeModel) {
  const Json vl = vl_json();
  const Json thinker{{"model_type", "qwen2_5_omni_thinker"},
                     {"text_config", vl},
                     {"vision_config", vl["vision_config"]},
                     {"audio_config", {{"output_dim", vl["hidden_size"]}}}};
  const Json whole{{"model_type", "qwen2_5_omni"},
                   {"thinker_config", thinker},
                   {"talker_config", {{"vocab_size", 8448}}}};
  EXPECT_EQ(read(whole).family, ModelFamily::kQwen2_5OmniThinker);
  EXPECT_EQ(count_parameters(read(whole)), count_parameters(read(thinker)));
  EXPECT_EQ(read(whole).tensor_prefix, "thinker.");
  EXPECT_EQ(read(thinker).tensor_prefix, "");
  EXPECT_THAT(refusal_of({{"model_type", "qwen2_5_omni"}}), HasSubstr("thinker_config is missing"));
}

TEST(ReadModelConfig, ListsTheKnownFamilies) {
  EXPECT_THAT(refusal_of({{"model_type", "gpt2"}}),
              AllOf(HasSubstr("model family is not known"), HasSubstr("config.json model_type"),
                    HasSubstr("\"gpt2\""),
                    HasSubstr("qwen2, qwen3, llama, qwen2_vl, qwen2_5_vl, qwen3_vl, internvl, "
                              "internvl_chat, llava_onevision")));
  EXPECT_THAT(refusal_of({{"hidden_size", 4}}), HasSubstr("no such key"));
}

TEST(ReadModelConfig, FindsTheTokenOfAPictureInTheFilesOfTheTokenizer) {
  const TemporaryFolder folder;
  const Json config{{"model_type", "internvl_chat"}, {"ps_version", "v2"},
                    {"use_thumbnail", true},         {"dynamic_image_size", true},
                    {"llm_config", Json::object()},  {"vision_config", Json::object()}};
  const auto image = [&] { return read_model_config(folder.path()).tokens.image_pad; };
  folder.write("config.json", config.dump());
  EXPECT_EQ(image(), 151667) << "without a tokenizer";
  folder.write("tokenizer.json", R"({"added_tokens": [{"id": 7, "content": "<IMG_CONTEXT>"}]})");
  EXPECT_EQ(image(), 7);
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"8": {"content": "<img>"},)"
                                        R"( "9": {"content": "<IMG_CONTEXT>"}}})");
  EXPECT_EQ(image(), 9);
}

TEST(ReadModelConfig, RefusesWhatIsNotJson) {
  EXPECT_THAT(refusal_of_text(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal_of_text("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal_of_text(R"({"model_type": "qwen2", "model_type": "qwen3"})"),
              HasSubstr("duplicate key"));
  EXPECT_THAT(refusal_of_text(std::string(1 << 21, ' ')), HasSubstr("larger than the limit"));
}

struct BadField {
  std::string pointer;  // JSON pointer of the field
  Json value;
  std::vector<std::string> words;
};

void expect_refusals(const Json& valid, const std::vector<BadField>& bad_fields) {
  ASSERT_EQ(refusal_of(valid), "accepted");
  for (const BadField& bad : bad_fields) {
    Json json = valid;
    json[Json::json_pointer(bad.pointer)] = bad.value;
    const std::string refusal = refusal_of(json);
    for (const std::string& word : bad.words)
      EXPECT_THAT(refusal, HasSubstr(word)) << bad.pointer << " = " << bad.value;
  }
}

TEST(ReadModelConfig, RefusesImpossibleFieldsOfADecoder) {
  expect_refusals(
      text_json(),
      {
          {"/hidden_size", -896, {"hidden_size", "-896", "a whole number from 1"}},
          {"/hidden_size", "896", {"hidden_size", "\"896\"", "a whole number"}},
          {"/hidden_size", 896.5, {"896.5", "a whole number"}},
          {"/hidden_size", nullptr, {"null", "a whole number"}},
          {"/hidden_size", 900, {"width does not divide over the heads", "width 900, 14 heads"}},
          {"/num_hidden_layers", 0, {"num_hidden_layers", "found: 0"}},
          {"/num_hidden_layers", true, {"num_hidden_layers", "found: true"}},
          {"/vocab_size", 18446744073709551615ULL, {"vocab_size", "18446744073709551615"}},
          {"/num_key_value_heads", 4, {"heads do not divide over the kv heads", "14 heads, 4 kv"}},
          {"/hidden_act", "gelu", {"activation is not supported", "\"gelu\"", "silu"}},
          {"/rms_norm_eps", -1, {"rms_norm_eps", "at least 0"}},
          {"/rope_theta", "1e6", {"rope_theta", "a finite number"}},
          {"/tie_word_embeddings", "yes", {"tie_word_embeddings", "true or false"}},
          {"/attention_dropout", 0.1, {"attention dropout is not supported", "0.1"}},
          {"/rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}, {"rope type", "\"yarn\""}},
          {"/rope_scaling", 3, {"rope_scaling", "an object"}},
          {"/layer_types",
           {"full_attention", "sliding_attention"},
           {"sliding-window attention is not supported", "layer_types"}},
      });
  expect_refusals(qwen3_json(), {
                                    {"/attention_bias", true, {"attention bias is not supported"}},
                                    {"/head_dim", 127, {"head width is odd", "127"}},
                                });
}

TEST(ReadModelConfig, RefusesAWindowOnlyWhenItIsInUse) {
  Json json = text_json();
  json["use_sliding_window"] = true;  // from layer max_window_layers = 24 on: none
  EXPECT_EQ(refusal_of(json), "accepted");
  json["max_window_layers"] = 20;
  EXPECT_THAT(refusal_of(json), HasSubstr("sliding-window attention is not supported"));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(refusal_of(json), "accepted");
}

TEST(ReadModelConfig, ReadsTheRopeOfLlama3) {
  Json json = published_json(published_models()[17]);
  EXPECT_FALSE(read(json).backbone.rope_scaling.has_value());
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 32.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  ASSERT_TRUE(read(json).backbone.rope_scaling.has_value());
  EXPECT_EQ(read(json).backbone.rope_scaling->factor, 32);
  expect_refusals(json, {{"/rope_scaling/high_freq_factor", 0.5, {"bands", "above low_freq"}},
                         {"/attention_bias", true, {"attention bias is not supported"}},
                         {"/mlp_bias", true, {"MLP bias is not supported"}}});
}

TEST(ReadModelConfig, TakesADynamicRopeUpToItsContext) {
  Json json = published_json(published_models()[0]);
  ASSERT_EQ(read(json).backbone.max_tokens(), std::nullopt);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    json = published_json(published_models()[0]);
    json["max_position_embeddings"] = 4096;
    json[key] = {{"rope_type", "dynamic"}, {"type", "dynamic"}, {"factor", 2.0}};
    EXPECT_EQ(read(json).backbone.max_tokens(), 4096);
    EXPECT_FALSE(read(json).backbone.rope_scaling.has_value());
  }
  json = vl_json();
  json["rope_scaling"]["type"] = "dynamic";
  EXPECT_THAT(refusal_of(json), HasSubstr("a dynamic rope with M-RoPE is not supported"));
}

TEST(ReadModelConfig, TiesNoHeadThatDiffersFromTheEmbedding) {
  Json json = published_json(published_models()[0]);
  json["tie_word_embeddings"] = true;
  const TemporaryFolder folder;
  folder.write("config.json", json.dump());
  const std::vector<std::byte> embedding{std::byte{1}, std::byte{2}};
  const auto read_with_head = [&](std::vector<std::byte> head) {
    std::vector<TensorBytes> tensors(2);
    tensors[0].data = embedding;
    tensors[0].name = "model.embed_tokens.weight";
    tensors[1].data = head;
    tensors[1].name = "lm_head.weight";
    for (TensorBytes& tensor : tensors) tensor.dtype = StoredDtype::kInt8, tensor.shape = {2, 1};
    write_safetensors(real_file_system(), folder.path("model.safetensors"), tensors);
    return read_model_config(folder.path()).backbone;
  };
  EXPECT_TRUE(read_with_head(embedding).tied_head);
  EXPECT_FALSE(read_with_head(embedding).has_other_head);
  EXPECT_FALSE(read_with_head({std::byte{1}, std::byte{3}}).tied_head);
  EXPECT_TRUE(read_with_head({std::byte{1}, std::byte{3}}).has_other_head);
  folder.write("model.safetensors", "damaged");
  EXPECT_TRUE(read_model_config(folder.path()).backbone.tied_head) << "loading says what is wrong";
}

TEST(ReadModelConfig, RefusesImpossibleFieldsOfOtherTowers) {
  expect_refusals(published_json(published_models()[20]),
                  {{"/vision_config/hidden_size", 2048, {"vision output does not fit"}},
                   {"/vision_config/hidden_act", "gelu", {"activation", "quick_gelu"}}});
  expect_refusals(
      published_json(published_models()[24]),
      {{"/vision_config/deepstack_visual_indexes", {8, 27}, {"no layers of the tower", "below 27"}},
       {"/vision_config/deepstack_visual_indexes", {8, 8}, {"ascending"}},
       {"/vision_config/num_position_embeddings", 2300, {"not square", "2300"}},
       {"/vision_config/hidden_act", "gelu", {"activation", "gelu_pytorch_tanh"}},
       {"/text_config/rope_scaling/mrope_section", {24, 20, 21}, {"sum 65"}},
       {"/text_config/num_hidden_layers", 2, {"more levels of features than layers"}},
       {"/text_config", nullptr, {"text_config is missing"}}});
}

TEST(ReadModelConfig, RefusesImpossibleFieldsOfAVisionModel) {
  const std::vector<BadField> vision{
      {"/vision_config/out_hidden_size",
       2048,
       {"vision output does not fit the backbone", "out_hidden_size 2048", "hidden_size 3584"}},
      {"/vision_config/num_heads", 15, {"vision width does not divide", "width 1280, 15 heads"}},
      {"/vision_config/patch_size", 0, {"vision_config.patch_size", "found: 0"}},
      {"/vision_config/patch_size", {14, 16}, {"sides are not equal", "[14,16]"}},
      {"/vision_config/window_size", 20, {"window is smaller than a merged token", "28 pixels"}},
      {"/vision_config/hidden_act", "quick_gelu", {"vision_config.hidden_act", "quick_gelu"}},
      {"/vision_config/fullatt_block_indexes", 7, {"fullatt_block_indexes", "a list"}},
      {"/vision_config", nullptr, {"vision_config is missing"}},
      {"/image_token_id", 152064, {"token id outside the vocabulary", "152064", "below 152064"}},
  };
  expect_refusals(vl_json(), vision);
  expect_refusals(nested(vl_json()), vision);
  expect_refusals(
      vl_json(),
      {
          {"/rope_scaling/mrope_section", {16, 24, 23}, {"do not fill half a head", "sum 63"}},
          {"/rope_scaling/mrope_section", {40, 24}, {"do not fill half a head", "[40,24]"}},
          {"/rope_scaling/mrope_section", {-16, 40, 40}, {"mrope_section", "whole numbers"}},
          {"/rope_scaling", nullptr, {"M-RoPE sections are missing"}},
      });
}

}  // namespace
}  // namespace tributary::config
