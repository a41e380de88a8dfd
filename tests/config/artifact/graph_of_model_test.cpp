#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/artifact/module_graph.h"
#include "core/error.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(GraphOfModel, ReadsTowerProjectorAndBackbone) {
  const ModuleGraph graph = parse_graph_of_model(
      R"({"model_type": "qwen2_5_vl", "hidden_size": 3584, "num_attention_heads": 28,
          "num_key_value_heads": 4, "intermediate_size": 18944, "num_hidden_layers": 28,
          "vocab_size": 152064, "vision_config": {"hidden_size": 1280, "depth": 32,
          "num_heads": 16, "intermediate_size": 3420, "fullatt_block_indexes": [7, 15, 23, 31]}})",
      "config.json");
  ASSERT_EQ(graph.modules.size(), 3u);
  const std::vector<LayerRun>& tower = graph.find("vision")->layers;
  ASSERT_EQ(tower.size(), 9u);  // patches; then windows and full attention in turns
  for (const std::size_t run : {1, 3, 5, 7}) {
    EXPECT_EQ(tower[run].layers, 7);
    EXPECT_EQ(tower[run].shape.window, 64);
    EXPECT_EQ(tower[run + 1].layers, 1);
    EXPECT_EQ(tower[run + 1].shape.window, 0);
  }
  EXPECT_EQ(graph.find("projector")->layers[0].shape.hidden_width, 5120);
  EXPECT_EQ(graph.find("backbone")->layers[1].shape.kv_heads, 4);
  EXPECT_EQ(graph.edges[1].to, "backbone");
  EXPECT_EQ(parse_module_graph(write_module_graph(graph), "written"), graph);
}

TEST(GraphOfModel, RefusesMoreLayersThanTheTrainerTakes) {
  EXPECT_THAT(
      [] {
        (void)parse_graph_of_model(
            R"({"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4,
                "intermediate_size": 128, "num_hidden_layers": 10001, "vocab_size": 256})",
            "config.json");
      },
      testing::ThrowsMessage<Error>(AllOf(HasSubstr("config.json num_hidden_layers"),
                                          HasSubstr("10001"), HasSubstr("10000"))));
}

TEST(GraphOfModel, RefusesAFamilyThatIsNotListed) {
  EXPECT_THAT([] { (void)parse_graph_of_model(R"({"model_type": "mamba"})", "config.json"); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("config.json model_type"), HasSubstr("qwen2_5_vl"))));
}

/// The runs of blocks of the backbone, each as its number of layers and its value of `key`.
std::vector<std::pair<std::int64_t, std::int64_t>> runs_of(const std::string& family,
                                                           const std::string& keys,
                                                           std::int64_t LayerShape::*key) {
  const ModuleGraph graph = parse_graph_of_model(
      R"({"model_type": ")" + family + R"(", "hidden_size": 64, "num_attention_heads": 4,
          "intermediate_size": 128, "num_hidden_layers": 8, "vocab_size": 256, )" +
          keys + "}",
      "config.json");
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (const LayerRun& run : graph.find("backbone")->layers)
    if (run.shape.kind == LayerKind::kBlock) runs.emplace_back(run.layers, run.shape.*key);
  return runs;
}

std::string message_of(const std::string& text) {
  return input_error_of([&] { (void)parse_graph_of_model(text, "config.json"); }, "read");
}

TEST(GraphOfModel, PutsDenseLayersAmongMixturesWhereTheKeysSay) {
  const auto experts = [](const std::string& keys) {
    return runs_of(
        "qwen3_moe",
        R"("num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 32)" + keys,
        &LayerShape::experts);
  };
  using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(experts(""), (Runs{{8, 16}}));
  EXPECT_EQ(experts(R"(, "mlp_only_layers": [0, 3])"), (Runs{{1, 0}, {2, 16}, {1, 0}, {4, 16}}));
  EXPECT_EQ(experts(R"(, "decoder_sparse_step": 4, "mlp_only_layers": [7])"),
            (Runs{{3, 0}, {1, 16}, {4, 0}}));
  EXPECT_EQ(runs_of("deepseek_v3", R"("n_routed_experts": 16, "num_experts_per_tok": 2,
      "moe_intermediate_size": 32, "n_shared_experts": 2, "first_k_dense_replace": 3,
      "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8)",
                    &LayerShape::shared_mlp_width),
            (Runs{{3, 0}, {5, 64}}));
}

TEST(GraphOfModel, GivesLayersTheWindowsThatTheirClassGivesThem) {
  const std::string window = R"("use_sliding_window": true, "sliding_window": 32)";
  const auto windows = [](const std::string& family, const std::string& keys) {
    return runs_of(family, keys, &LayerShape::window);
  };
  using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(windows("qwen2", R"("use_sliding_window": false, "sliding_window": 32,
                                "max_window_layers": 2)"),
            (Runs{{8, 0}}));
  EXPECT_EQ(windows("qwen2", window), (Runs{{8, 0}}));  // from layer 28 on
  EXPECT_EQ(windows("qwen2", window + R"(, "max_window_layers": 2)"), (Runs{{2, 0}, {6, 32}}));
  EXPECT_EQ(windows("qwen3", window + R"(, "layer_types": ["sliding_attention", "full_attention",
      "sliding_attention", "sliding_attention", "full_attention", "full_attention",
      "full_attention", "full_attention"])"),
            (Runs{{1, 32}, {1, 0}, {2, 32}, {4, 0}}));
  EXPECT_EQ(windows("qwen3_moe", window + R"(, "max_window_layers": 2)"), (Runs{{8, 32}}));
  EXPECT_EQ(windows("llama", window), (Runs{{8, 0}}));  // its class knows none
  EXPECT_THAT(
      [&] { windows("qwen2", R"("layer_types": ["sliding_attention"])"); },
      testing::ThrowsMessage<Error>(AllOf(HasSubstr("layer_types"), HasSubstr("8 layers"))));
}

TEST(GraphOfModel, RefusesPartsThatItHasNoCostsFor) {
  const std::string sizes = R"("hidden_size": 64, "num_attention_heads": 4,
      "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 256)";
  EXPECT_THAT(message_of(R"({"model_type": "internvl", "vision_config": {},
                             "text_config": {"model_type": "gemma3_text", )" +
                         sizes + "}}"),
              AllOf(HasSubstr("text_config.model_type"), HasSubstr("gemma3_text")));
  EXPECT_THAT(message_of(R"({"model_type": "llava_onevision",
                             "vision_config": {"model_type": "swin"}, "text_config": {)" +
                         sizes + "}}"),
              AllOf(HasSubstr("vision_config.model_type"), HasSubstr("siglip_vision_model")));
  EXPECT_THAT(message_of(R"({"model_type": "qwen2_5_vl",
                             "vision_config": {"out_hidden_size": 128}, )" +
                         sizes + "}"),
              AllOf(HasSubstr("vision_config.out_hidden_size"), HasSubstr("64")));
  EXPECT_THAT(message_of(R"({"model_type": "qwen2_5_vl",
                             "vision_config": {"depth": 4, "fullatt_block_indexes": [4]}, )" +
                         sizes + "}"),
              AllOf(HasSubstr("vision_config.fullatt_block_indexes"), HasSubstr("0 to 3")));
  EXPECT_THAT(
      message_of(R"({"model_type": "internvl", "downsample_ratio": 2, "vision_config": {}, )" +
                 sizes + "}"),
      HasSubstr("downsample_ratio"));
}

TEST(GraphOfModel, TiesTheHeadOfInternVlAsTheTopOfTheFileSays) {
  const auto is_tied = [](const std::string& model, const std::string& top,
                          const std::string& text) {
    const ModuleGraph graph = parse_graph_of_model(
        str(R"({"model_type": ")", model, R"(", )", top, R"("vision_config": {"hidden_size": 64,
            "num_attention_heads": 2, "intermediate_size": 64, "num_hidden_layers": 2,
            "image_size": 28, "patch_size": 14}, "text_config": {"hidden_size": 64,
            "num_attention_heads": 2, "intermediate_size": 64, "num_hidden_layers": 2, )",
            text, R"("vocab_size": 99}})"),
        "config.json");
    return graph.find("backbone")->layers.back().shape.tied;
  };
  const std::string yes = R"("tie_word_embeddings": true, )";
  const std::string no = R"("tie_word_embeddings": false, )";
  EXPECT_TRUE(is_tied("internvl", "", no));
  EXPECT_FALSE(is_tied("internvl", no, yes));
  EXPECT_TRUE(is_tied("llava_onevision", no, yes));
  EXPECT_FALSE(is_tied("llava_onevision", "", no));
}

// InternVL3-38B as its -hf form says it: InternViT-6B, 4 patches a token, the text model of
// Qwen2.5-32B.
TEST(GraphOfModel, ReadsTheTowerOfTilesOfInternVl) {
  const ModuleGraph graph = parse_graph_of_model(
      R"({"model_type": "internvl", "downsample_ratio": 0.5, "tie_word_embeddings": false,
          "text_config": {"model_type": "qwen2", "hidden_size": 5120, "num_attention_heads": 40,
          "num_key_value_heads": 8, "intermediate_size": 27648, "num_hidden_layers": 64,
          "vocab_size": 151674},
          "vision_config": {"model_type": "internvl_vision", "hidden_size": 3200,
          "num_attention_heads": 25, "intermediate_size": 12800, "num_hidden_layers": 45,
          "image_size": [448, 448], "patch_size": [14, 14], "use_qk_norm": true,
          "norm_type": "rms_norm"}})",
      "config.json");
  std::vector<std::string> edges;
  for (const ModuleEdge& edge : graph.edges) edges.push_back(edge.from + ">" + edge.to);
  EXPECT_THAT(edges, ElementsAre("vision>projector", "projector>backbone"));
  const std::vector<LayerRun>& tower = graph.find("vision")->layers;
  ASSERT_EQ(tower.size(), 2u);  // patches, then equal blocks
  EXPECT_EQ(tower[0].shape.input_width, 3 * 14 * 14);
  EXPECT_EQ(tower[1].layers, 45);
  EXPECT_EQ(tower[1].shape.width, 3200);
  EXPECT_EQ(tower[1].shape.heads, 25);
  EXPECT_EQ(tower[1].shape.mlp_width, 12800);
  EXPECT_EQ(tower[1].shape.mlp_matrices, 2);
  EXPECT_FALSE(tower[1].shape.causal);
  const LayerShape& projector = graph.find("projector")->layers[0].shape;
  EXPECT_EQ(projector.input_width, 3200);
  EXPECT_EQ(projector.merge, 4);
  EXPECT_EQ(projector.hidden_width, 5120);
  EXPECT_EQ(projector.width, 5120);
  const std::vector<LayerRun>& backbone = graph.find("backbone")->layers;
  EXPECT_EQ(backbone[1].layers, 64);
  EXPECT_EQ(backbone.back().shape.vocab, 151674);
  EXPECT_EQ(parse_module_graph(write_module_graph(graph), "written"), graph);
}

TEST(GraphOfModel, ReadsBothEncodersOfAnOmniThinker) {
  const std::string text = R"("text_config": {"hidden_size": 3584, "num_attention_heads": 28,
      "num_key_value_heads": 4, "intermediate_size": 18944, "num_hidden_layers": 28,
      "vocab_size": 152064})";
  const std::string thinker = R"("model_type": "qwen2_5_omni_thinker", "audio_config": {},
                                 "vision_config": {"hidden_size": 1280}, )" +
                              text;
  const ModuleGraph graph = parse_graph_of_model("{" + thinker + "}", "config.json");
  std::vector<std::string> names;
  for (const ModuleNode& module : graph.modules) names.push_back(module.name);
  EXPECT_THAT(names, ElementsAre("audio", "audio_projector", "backbone", "projector", "vision"));
  std::vector<std::string> edges;
  for (const ModuleEdge& edge : graph.edges) edges.push_back(edge.from + ">" + edge.to);
  EXPECT_THAT(edges, ElementsAre("audio>audio_projector", "audio_projector>backbone",
                                 "vision>projector", "projector>backbone"));
  EXPECT_EQ(graph.find("audio")->layers.back().shape.window, 100);
  EXPECT_EQ(parse_module_graph(write_module_graph(graph), "written"), graph);
  const ModuleGraph whole = parse_graph_of_model(
      R"({"model_type": "qwen2_5_omni", "talker_config": {}, "thinker_config": {)" + thinker + "}}",
      "config.json");
  EXPECT_EQ(whole.modules, graph.modules);

  const ModuleGraph third = parse_graph_of_model(
      R"({"model_type": "qwen3_omni_moe_thinker", "audio_config": {},
          "vision_config": {"hidden_size": 1152, "depth": 27}, )" +
          text + "}",
      "config.json");
  const std::vector<LayerRun>& audio = third.find("audio")->layers;
  EXPECT_EQ(audio[0].shape.uses, 64 * 4);  // 128 bins and 8 frames, halved
  EXPECT_EQ(audio[3].shape.input_width, 16 * 480);
  EXPECT_EQ(audio[4].shape.window, 104);  // 8 chunks of 13 positions
  EXPECT_EQ(parse_module_graph(write_module_graph(third), "written"), third);
}

}  // namespace
}  // namespace tributary::config
