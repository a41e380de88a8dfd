#include "model/encoder/tile_vision.h"
#include "model/family/all_families.h"
#include "model/family/multimodal_model.h"

namespace tributary::model {
namespace {

/// Sizes and norms of a block; a family adds the names.
BlockStyle block_of(const config::VisionConfig& config) {
  BlockStyle style;
  style.width = config.width;
  style.heads = config.heads;
  style.mlp_width = config.mlp_width;
  style.norm =
      config.layer_norms ? parallel::NormKind::kLayer : parallel::NormKind::kRootMeanSquare;
  style.norm_epsilon = config.norm_epsilon;
  style.deviation = config.initializer_range;
  style.qkv_bias = config.qkv_bias;
  style.mlp = {"mlp.fc1", "mlp.fc2"};
  return style;
}

BlockStyle intern_vit_block(const config::VisionConfig& config) {
  BlockStyle block = block_of(config);
  block.activation = ops::Activation::kGelu;
  block.scale = config.layer_scale.value_or(1);
  return block;
}

std::vector<std::int64_t> intern_vit_positions(const config::VisionConfig& config) {
  return {1, config.frame_rows(config.positions_side * config.positions_side), config.width};
}

TileNames names_of_intern_vit(const config::VisionConfig& config) {
  const std::string tower = "vision_tower.";
  BlockStyle block = intern_vit_block(config);
  block.norm1 = "layernorm_before";
  block.qkv = {"attention.q_proj", "attention.k_proj", "attention.v_proj"};
  block.out = "attention.projection_layer";
  block.norm2 = "layernorm_after";
  if (config.qk_norm) block.qk_norm = {"attention.q_norm", "attention.k_norm"};
  if (config.layer_scale) block.scales = {"lambda_1", "lambda_2"};
  return {.patches = tower + "embeddings.patch_embeddings.projection",
          .positions = tower + "embeddings.position_embeddings",
          .positions_shape = intern_vit_positions(config),
          .class_token = tower + "embeddings.cls_token",
          .blocks = tower + "encoder.layer.",
          .block = block,
          .projector = "multi_modal_projector.",
          .merger = {.norm = "layer_norm",
                     .first = "linear_1",
                     .second = "linear_2",
                     .norms_joined = true,
                     .epsilon = 1e-5}};
}

/// As the code of its authors has it, which keeps query, key and value in one parameter.
TileNames names_of_authors_intern_vit(const config::VisionConfig& config) {
  const std::string tower = "vision_model.";
  BlockStyle block = intern_vit_block(config);
  block.norm1 = "norm1";
  block.qkv = {"attn.qkv"};
  block.out = "attn.proj";
  block.norm2 = "norm2";
  if (config.qk_norm) block.qk_norm = {"attn.q_norm", "attn.k_norm"};
  if (config.layer_scale) block.scales = {"ls1", "ls2"};
  return {
      .patches = tower + "embeddings.patch_embedding",
      .positions = tower + "embeddings.position_embedding",
      .positions_shape = intern_vit_positions(config),
      .class_token = tower + "embeddings.class_embedding",
      .blocks = tower + "encoder.layers.",
      .block = block,
      .projector = "mlp1.",
      .merger = {.norm = "0", .first = "1", .second = "3", .norms_joined = true, .epsilon = 1e-5}};
}

TileNames names_of_siglip(const config::VisionConfig& config) {
  const std::string tower = "vision_tower.vision_model.";
  BlockStyle block = block_of(config);
  block.activation = ops::Activation::kGeluTanh;
  block.norm1 = "layer_norm1";
  block.qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  block.out = "self_attn.out_proj";
  block.norm2 = "layer_norm2";
  return {.patches = tower + "embeddings.patch_embedding",
          .positions = tower + "embeddings.position_embedding.weight",
          .positions_shape = {config.positions_side * config.positions_side, config.width},
          .blocks = tower + "encoder.layers.",
          .block = block,
          .projector = "multi_modal_projector.",
          .merger = {.first = "linear_1", .second = "linear_2", .bias = config.projector_bias},
          .unused_norm = tower + "post_layernorm",
          .newline = "image_newline"};
}

/// A model with one tower of tiles in front of its backbone.
std::unique_ptr<Model> make_tile_model(const config::ModelConfig& config,
                                       const ModelLayout& layouts, std::vector<Placeholder> takes,
                                       TileNames (*names_of)(const config::VisionConfig& config)) {
  return make_multimodal_model(
      config, layouts,
      [&](const config::ModelConfig& of, const PlaceOf& place_of) {
        std::vector<EncoderPart> parts;
        parts.push_back({.module = "vision",
                         .takes = std::move(takes),
                         .encoder = std::make_unique<TileVision>(
                             of.vision.value(), place_of("vision"), names_of(of.vision.value()))});
        return parts;
      },
      {.prefix = "language_model.model.", .head = "language_model.lm_head"});
}

}  // namespace

std::unique_ptr<Model> make_internvl(const config::ModelConfig& config,
                                     const ModelLayout& layouts) {
  return make_tile_model(config, layouts, {{Modality::kImage, config.tokens.image_pad, "images"}},
                         names_of_intern_vit);
}

std::unique_ptr<Model> make_internvl_chat(const config::ModelConfig& config,
                                          const ModelLayout& layouts) {
  return make_tile_model(config, layouts, {{Modality::kImage, config.tokens.image_pad, "images"}},
                         names_of_authors_intern_vit);
}

std::unique_ptr<Model> make_llava_onevision(const config::ModelConfig& config,
                                            const ModelLayout& layouts) {
  return make_tile_model(config, layouts,
                         {{Modality::kImage, config.tokens.image_pad, "images"},
                          {Modality::kVideo, config.tokens.video_pad, "clips"}},
                         names_of_siglip);
}

}  // namespace tributary::model
