#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "core/sample_shape.h"
#include "model/encoder/encoder.h"
#include "model/encoder/encoder_block.h"
#include "model/encoder/patch_merger.h"
#include "ops/attend_packed.h"
#include "parallel/layer_boundary.h"

namespace tributary::model {

/// What a family calls the parameters of its tower and projector.
struct TileNames {
  std::string patches;    // of the convolution
  std::string positions;  // the table
  std::vector<std::int64_t> positions_shape;
  std::string class_token = {};  // of a tower that has one
  std::string blocks;            // their prefix, before the number
  BlockStyle block;              // names of its parameters
  std::string projector;         // the prefix
  PatchMerger::Style merger;
  std::string unused_norm = {};  // that files have behind the blocks and nothing reads; empty: none
  std::string newline = {};      // the token behind each row of tokens; empty: none
};

/// A vision tower that sees tiles of one size (module `vision`), with its projector (module
/// `projector`): InternViT and SigLIP.
///
/// An item is a picture cut into tiles, or a clip with a tile for each frame: as many steps in time
/// as tiles. Patches attend within their tile. A learned table gives them their positions, and a
/// class token, where the tower has one, lies in front of each tile until the projector.
class TileVision final : public Encoder {
 public:
  /// Appends the units of the patch embedding, of each block, and of the projector.
  TileVision(const config::VisionConfig& config, const EncoderPlace& place, const TileNames& names);
  ~TileVision() override;

  /// shape:  rows [patches, patch_width], items back to back, tile after tile, each in the order of
  ///         docs/theory/numerics.md, "Patch rows" -> returns [features, width], class tokens too
  /// dtype:  f32 in; that of the parameters inside and out
  /// errors: Fault::kInput when rows and grids do not match or a tile has another size
  /// cost:   keeps nothing for backward when neither module is trainable
  /// source: Chen 2024, "Expanding performance boundaries of open-source multimodal models"
  ///         (arXiv:2412.05271); docs/theory/numerics.md, "Towers of tiles"
  [[nodiscard]] at::Tensor run_tower(int stage, const at::Tensor& input,
                                     std::span<const Grid> items) override;
  [[nodiscard]] at::Tensor project(const at::Tensor& features,
                                   std::span<const Grid> items) override;

  [[nodiscard]] std::int64_t input_width(int stage) const override;
  [[nodiscard]] std::int64_t feature_width() const override { return config_.width; }
  [[nodiscard]] std::int64_t row_width() const override { return config_.patch_width(); }
  [[nodiscard]] std::int64_t features_of(const Grid& item) const override {
    return item.time * config_.frame_rows(item.rows * item.columns);
  }
  [[nodiscard]] std::int64_t tokens_of(const Grid& item) const override {
    return config::tokens_of_tiles(config_, item);
  }
  [[nodiscard]] Grid smallest_item() const override {
    return {1, config_.tile_side(), config_.tile_side()};
  }
  void set_keep(const parallel::KeepOf& keep_of) override;

 private:
  class TileEmbedding;

  /// Puts the tokens of each item in the order of the backbone: a picture row by row with newlines,
  /// frames of a clip made smaller.
  /// shape: tokens [patches, output_width] -> returns [tokens of the items, output_width]
  [[nodiscard]] at::Tensor arrange(const at::Tensor& tokens, const std::vector<Grid>& items) const;
  [[nodiscard]] at::Tensor arrange_picture(const at::Tensor& tiles, const Mosaic& mosaic) const;
  [[nodiscard]] at::Tensor embed_tiles(const at::Tensor& rows, std::span<const Grid> items) const;
  /// Which rows attend to each other: those of a tile.
  [[nodiscard]] std::shared_ptr<const ops::SampleGroups> groups_of(std::int64_t tiles,
                                                                   at::Device device);

  config::VisionConfig config_;
  std::unique_ptr<TileEmbedding> embedding_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  std::unique_ptr<PatchMerger> projector_;
  parallel::Parameter* newline_ = nullptr;  // [output_width]
  parallel::Keep keep_projector_ = parallel::Keep::kActivations;
  std::shared_ptr<const ops::SampleGroups> groups_;  // of the latest pass
  at::Device groups_device_;
};

}  // namespace tributary::model
