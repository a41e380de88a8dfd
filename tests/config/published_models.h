#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/json.h"

namespace tributary::config {

/// Published sizes, docs/theory/numerics.md, "Text decoders".
struct Published {
  std::string name;
  std::string model_type;
  int layers, width, heads, kv_heads, mlp_width, vocab;
  bool tied;
  int vision_mlp_width;  // 0: text model
  std::int64_t parameters;
};

/// The towers of Qwen2-VL and Qwen3-VL, as released.
inline Json tower_json(const Published& model) {
  if (model.model_type == "qwen2_vl")
    return {{"depth", 32},
            {"embed_dim", 1280},
            {"hidden_size", model.width},
            {"mlp_ratio", 4},
            {"num_heads", 16},
            {"in_chans", 3},
            {"patch_size", 14},
            {"hidden_act", "quick_gelu"},
            {"spatial_merge_size", 2}};
  const bool small = model.vision_mlp_width == 4096;
  return {{"depth", small ? 24 : 27},
          {"hidden_size", small ? 1024 : 1152},
          {"intermediate_size", model.vision_mlp_width},
          {"out_hidden_size", model.width},
          {"num_heads", 16},
          {"num_position_embeddings", 2304},
          {"deepstack_visual_indexes", small ? Json{5, 11, 17} : Json{8, 16, 24}},
          {"hidden_act", "gelu_pytorch_tanh"}};
}

inline Json decoder_json(const Published& model) {
  return {{"num_hidden_layers", model.layers},
          {"hidden_size", model.width},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.kv_heads},
          {"intermediate_size", model.mlp_width},
          {"vocab_size", model.vocab},
          {"hidden_act", "silu"},
          {"max_position_embeddings", 32768},
          {"max_window_layers", model.layers},
          {"sliding_window", 32768},
          {"use_sliding_window", false},
          {"initializer_range", 0.02},
          {"attention_dropout", 0.0},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000.0},
          {"tie_word_embeddings", model.tied}};
}

/// The layout of the released checkpoints: flat.
inline Json published_json(const Published& model) {
  Json json = decoder_json(model);
  json["model_type"] = model.model_type;
  if (model.model_type.starts_with("qwen3")) json["head_dim"] = 128;
  if (model.model_type == "qwen2_audio") {
    json["model_type"] = "qwen2";
    return {{"model_type", "qwen2_audio"},
            {"text_config", json},
            {"audio_token_index", 151646},
            {"audio_config", {{"num_mel_bins", 128}, {"encoder_layers", 32}, {"d_model", 1280}}}};
  }
  if (model.vision_mlp_width == 0) return json;
  if (model.model_type == "qwen3_vl") {
    json["rope_scaling"] = {{"mrope_interleaved", true}, {"mrope_section", {24, 20, 20}}};
    return {{"model_type", "qwen3_vl"},
            {"tie_word_embeddings", model.tied},
            {"text_config", json},
            {"vision_config", tower_json(model)}};
  }
  json["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}};
  json["image_token_id"] = 151655;
  json["video_token_id"] = 151656;
  json["vision_start_token_id"] = 151652;
  json["vision_end_token_id"] = 151653;
  if (model.model_type == "qwen2_vl") {
    json["vision_config"] = tower_json(model);
    return json;
  }
  json["vision_config"] = {{"depth", 32},
                           {"hidden_act", "silu"},
                           {"hidden_size", 1280},
                           {"intermediate_size", model.vision_mlp_width},
                           {"num_heads", 16},
                           {"in_chans", 3},
                           {"out_hidden_size", model.width},
                           {"patch_size", 14},
                           {"spatial_merge_size", 2},
                           {"spatial_patch_size", 14},
                           {"temporal_patch_size", 2},
                           {"window_size", 112},
                           {"fullatt_block_indexes", {7, 15, 23, 31}},
                           {"tokens_per_second", 2}};
  return json;
}

inline const std::vector<Published>& published_models() {
  static const std::vector<Published> models{
      {"Qwen2.5-0.5B", "qwen2", 24, 896, 14, 2, 4864, 151936, true, 0, 494'032'768},
      {"Qwen2.5-1.5B", "qwen2", 28, 1536, 12, 2, 8960, 151936, true, 0, 1'543'714'304},
      {"Qwen2.5-3B", "qwen2", 36, 2048, 16, 2, 11008, 151936, true, 0, 3'085'938'688},
      {"Qwen2.5-7B", "qwen2", 28, 3584, 28, 4, 18944, 152064, false, 0, 7'615'616'512},
      {"Qwen2.5-14B", "qwen2", 48, 5120, 40, 8, 13824, 152064, false, 0, 14'770'033'664},
      {"Qwen2.5-32B", "qwen2", 64, 5120, 40, 8, 27648, 152064, false, 0, 32'763'876'352},
      {"Qwen2.5-72B", "qwen2", 80, 8192, 64, 8, 29568, 152064, false, 0, 72'706'203'648},
      {"Qwen3-0.6B", "qwen3", 28, 1024, 16, 8, 3072, 151936, true, 0, 596'049'920},
      {"Qwen3-1.7B", "qwen3", 28, 2048, 16, 8, 6144, 151936, true, 0, 1'720'574'976},
      {"Qwen3-4B", "qwen3", 36, 2560, 32, 8, 9728, 151936, true, 0, 4'022'468'096},
      {"Qwen3-8B", "qwen3", 36, 4096, 32, 8, 12288, 151936, false, 0, 8'190'735'360},
      {"Qwen3-14B", "qwen3", 40, 5120, 40, 8, 17408, 151936, false, 0, 14'768'307'200},
      {"Qwen3-32B", "qwen3", 64, 5120, 64, 8, 25600, 151936, false, 0, 32'762'123'264},
      {"Qwen2.5-VL-3B", "qwen2_5_vl", 36, 2048, 16, 2, 11008, 151936, true, 3420, 3'754'622'976},
      {"Qwen2.5-VL-7B", "qwen2_5_vl", 28, 3584, 28, 4, 18944, 152064, false, 3420, 8'292'166'656},
      {"Qwen2.5-VL-32B", "qwen2_5_vl", 64, 5120, 40, 8, 27648, 152064, false, 3456, 33'452'718'336},
      {"Qwen2.5-VL-72B", "qwen2_5_vl", 80, 8192, 64, 8, 29568, 152064, false, 3456, 73'410'777'344},
      {"Llama-3-8B", "llama", 32, 4096, 32, 8, 14336, 128256, false, 0, 8'030'261'248},
      {"Llama-3-70B", "llama", 80, 8192, 64, 8, 28672, 128256, false, 0, 70'553'706'496},
      {"Qwen2-VL-2B", "qwen2_vl", 28, 1536, 12, 2, 8960, 151936, true, 5120, 2'208'985'600},
      {"Qwen2-VL-7B", "qwen2_vl", 28, 3584, 28, 4, 18944, 152064, false, 5120, 8'291'375'616},
      {"Qwen2-VL-72B", "qwen2_vl", 80, 8192, 64, 8, 29568, 152064, false, 5120, 73'405'560'320},
      {"Qwen3-VL-2B", "qwen3_vl", 28, 2048, 16, 8, 6144, 151936, true, 4096, 2'127'532'032},
      {"Qwen3-VL-4B", "qwen3_vl", 36, 2560, 32, 8, 9728, 151936, true, 4096, 4'437'815'808},
      {"Qwen3-VL-8B", "qwen3_vl", 36, 4096, 32, 8, 12288, 151936, false, 4304, 8'767'123'696},
      {"Qwen3-VL-32B", "qwen3_vl", 64, 5120, 64, 8, 25600, 151936, false, 4304, 33'357'390'064},
      {"Qwen2-Audio-7B", "qwen2_audio", 32, 4096, 32, 32, 11008, 156032, false, 0, 8'397'094'912},
  };
  return models;
}

}  // namespace tributary::config
