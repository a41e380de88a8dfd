#include <cmath>
#include <gtest/gtest.h>

#include "config/artifact/module_graph.h"
#include "cost/layer_cost.h"

namespace tributary::cost {
namespace {

std::int64_t parameters_of(const config::ModuleNode& module) {
  std::int64_t sum = 0;
  for (const config::LayerRun& run : module.layers)
    sum += run.layers * count_layer_parameters(run.shape);
  return sum;
}

std::int64_t parameters_of(const char* text) {
  std::int64_t sum = 0;
  for (const config::ModuleNode& module : config::parse_graph_of_model(text, "config.json").modules)
    sum += parameters_of(module);
  return sum;
}

/// Biases and tables of positions are left out: below `share` of all.
void expect_near(const char* text, double published, double share) {
  const auto counted = static_cast<double>(parameters_of(text));
  EXPECT_LE(counted, published);
  EXPECT_GE(counted, published * (1 - share)) << published - counted;
}

// Totals without another source are those of docs/theory/numerics.md, "Parameter counts".

TEST(ModelTotals, OfTextDecodersAreExact) {
  EXPECT_EQ(parameters_of(R"({"model_type": "llama", "hidden_size": 4096,
      "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
      "num_hidden_layers": 32, "vocab_size": 128256})"),
            8'030'261'248);
  const std::string mixture = R"({"model_type": "qwen3_moe", "hidden_size": 2048,
      "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
      "intermediate_size": 6144, "num_hidden_layers": 48, "vocab_size": 151936,
      "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768)";
  // Norms of queries and keys, two vectors of a head's width in each layer, are left out.
  constexpr std::int64_t kNorms = 48 * 2 * 128;
  EXPECT_EQ(parameters_of((mixture + "}").c_str()), 30'532'122'624 - kNorms);
  // Built by Qwen3MoeForCausalLM of transformers 5: 22 of 48 layers have experts.
  EXPECT_EQ(parameters_of(
                (mixture + R"(, "decoder_sparse_step": 2, "mlp_only_layers": [1, 3]})").c_str()),
            15'803'299'840 - kNorms);
}

TEST(ModelTotals, OfDeepSeekAreExact) {
  // Those of DeepseekV2ForCausalLM and DeepseekV3ForCausalLM of transformers 5; DeepSeek-AI
  // publishes 15.7, 236 and 671 billion.
  EXPECT_EQ(parameters_of(R"({"model_type": "deepseek_v2", "hidden_size": 2048,
      "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
      "vocab_size": 102400, "intermediate_size": 10944, "moe_intermediate_size": 1408,
      "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
      "first_k_dense_replace": 1, "moe_layer_freq": 1, "q_lora_rank": null, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})"),
            15'706'484'224);
  EXPECT_EQ(parameters_of(R"({"model_type": "deepseek_v2", "hidden_size": 5120,
      "num_hidden_layers": 60, "num_attention_heads": 128, "num_key_value_heads": 128,
      "vocab_size": 102400, "intermediate_size": 12288, "moe_intermediate_size": 1536,
      "n_routed_experts": 160, "n_shared_experts": 2, "num_experts_per_tok": 6,
      "first_k_dense_replace": 1, "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})"),
            235'741'434'880);
  EXPECT_EQ(parameters_of(R"({"model_type": "deepseek_v3", "hidden_size": 7168,
      "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
      "vocab_size": 129280, "intermediate_size": 18432, "moe_intermediate_size": 2048,
      "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
      "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})"),
            671'026'404'352);
}

TEST(ModelTotals, OfOneEncoderAndItsBackboneAreNear) {
  expect_near(R"({"model_type": "qwen2_5_vl", "hidden_size": 3584, "num_attention_heads": 28,
      "num_key_value_heads": 4, "intermediate_size": 18944, "num_hidden_layers": 28,
      "vocab_size": 152064, "vision_config": {"hidden_size": 1280, "depth": 32, "num_heads": 16,
        "intermediate_size": 3420, "out_hidden_size": 3584, "in_chans": 3}})",
              8'292'166'656.0, 1e-3);
  expect_near(R"({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text",
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 12288, "num_hidden_layers": 36, "vocab_size": 151936},
      "vision_config": {"hidden_size": 1152, "depth": 27, "num_heads": 16, "out_hidden_size": 4096,
        "intermediate_size": 4304, "deepstack_visual_indexes": [8, 16, 24]}})",
              8'767'123'696.0, 1e-3);
  expect_near(R"({"model_type": "qwen2_audio", "audio_config": {}, "text_config": {
        "model_type": "qwen2", "hidden_size": 4096, "num_attention_heads": 32,
        "intermediate_size": 11008, "num_hidden_layers": 32, "vocab_size": 156032}})",
              8'397'094'912.0, 1e-3);
}

TEST(ModelTotals, OfOmniThinkersAreNear) {
  // Built by the thinkers' classes of transformers 5.
  expect_near(R"({"model_type": "qwen2_5_omni", "thinker_config": {
      "model_type": "qwen2_5_omni_thinker",
      "audio_config": {"d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20,
        "encoder_ffn_dim": 5120, "num_mel_bins": 128, "n_window": 100, "output_dim": 3584},
      "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420,
        "num_heads": 16, "out_hidden_size": 3584, "fullatt_block_indexes": [7, 15, 23, 31]},
      "text_config": {"model_type": "qwen2_5_omni_text", "hidden_size": 3584,
        "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "vocab_size": 152064, "use_sliding_window": false}}})",
              8'931'813'888.0, 1e-3);
  expect_near(R"({"model_type": "qwen3_omni_moe", "thinker_config": {
      "model_type": "qwen3_omni_moe_thinker",
      "audio_config": {"d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20,
        "encoder_ffn_dim": 5120, "num_mel_bins": 128, "n_window": 50, "n_window_infer": 800,
        "downsample_hidden_size": 480, "output_dim": 2048},
      "vision_config": {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
        "num_heads": 16, "out_hidden_size": 2048, "patch_size": 16,
        "deepstack_visual_indexes": [8, 16, 24]},
      "text_config": {"model_type": "qwen3_omni_moe_text", "hidden_size": 2048,
        "intermediate_size": 768, "moe_intermediate_size": 768, "num_hidden_layers": 48,
        "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
        "vocab_size": 152064, "num_experts": 128, "num_experts_per_tok": 8,
        "decoder_sparse_step": 1, "mlp_only_layers": []}}})",
              31'719'205'488.0, 1e-3);
}

TEST(ModelTotals, OfVisionTowersAreNear) {
  expect_near(R"({"model_type": "siglip_vision_model", "hidden_size": 1152, "patch_size": 14,
      "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16})",
              412'987'248, 4e-3);
  // Without position_embedding and biases of CLIPVisionModel of transformers 5.
  expect_near(R"({"model_type": "clip_vision_model", "hidden_size": 1024, "patch_size": 14,
      "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16})",
              303'179'776, 4e-3);
  const config::ModuleGraph janus = config::parse_graph_of_model(R"({"model_type": "janus",
      "vision_config": {"hidden_size": 1024, "mlp_ratio": 4.0, "num_hidden_layers": 24},
      "text_config": {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
        "intermediate_size": 11008, "num_hidden_layers": 30, "vocab_size": 102400}})",
                                                                 "config.json");
  EXPECT_EQ(parameters_of(*janus.find("backbone")), 6'910'365'696);
  EXPECT_NEAR(double(parameters_of(*janus.find("vision"))), 303'688'704, 4e-3 * 303'688'704);
  const config::ModuleGraph intern = config::parse_graph_of_model(R"({
      "model_type": "internvl_chat", "downsample_ratio": 0.5,
      "vision_config": {"model_type": "intern_vit_6b", "hidden_size": 1024,
        "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24},
      "llm_config": {"model_type": "qwen2", "hidden_size": 896, "num_attention_heads": 14,
        "num_key_value_heads": 2, "intermediate_size": 4864, "num_hidden_layers": 24,
        "vocab_size": 151674}})",
                                                                  "config.json");
  EXPECT_NEAR(double(parameters_of(*intern.find("vision"))), 304'012'288, 6e-3 * 304'012'288);
  EXPECT_EQ(intern.find("projector")->layers[0].shape.merge, 4);
}

}  // namespace
}  // namespace tributary::cost
