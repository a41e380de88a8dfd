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
#include "model/encoder/patch_layout.h"
#include "model/encoder/patch_merger.h"
#include "parallel/layer_boundary.h"

namespace tributary::model {

/// The vision towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL (module `vision`) with their mergers
/// (module `projector`).
///
/// All items of a pack pass together, and no patch ever meets a patch of another frame. Qwen2.5-VL
/// attends inside windows in most blocks. Qwen3-VL adds a learned table of positions, and the
/// features of some blocks in the middle: they lie as further levels beside those of the last one,
/// each merged for a layer of the backbone.
class QwenVision final : public Encoder {
 public:
  /// Appends the units of the patch embedding, of each block, and of the mergers. `prefix` begins
  /// the names of parameters: visual.
  QwenVision(const config::VisionConfig& config, const EncoderPlace& place,
             const std::string& prefix);
  ~QwenVision() override;

  /// shape:  rows [patches, patch_width], items back to back, each in the order of
  ///         docs/theory/numerics.md, "Patch rows" -> returns [patches, feature_width], window by
  ///         window; levels side by side
  /// dtype:  f32 in; that of the parameters inside and out; rotary angles in f32
  /// errors: Fault::kInput when rows and grids do not match or a grid is impossible
  /// cost:   keeps nothing for backward when neither module is trainable
  /// source: Bai 2025, "Qwen2.5-VL technical report" (arXiv:2502.13923);
  ///         docs/theory/numerics.md, "Vision tower"
  [[nodiscard]] at::Tensor run_tower(int stage, const at::Tensor& input,
                                     std::span<const Grid> items) override;
  /// shape: returns [merged tokens, levels * output_width]
  [[nodiscard]] at::Tensor project(const at::Tensor& features,
                                   std::span<const Grid> items) override;

  [[nodiscard]] std::int64_t input_width(int stage) const override;
  [[nodiscard]] std::int64_t feature_width() const override;
  [[nodiscard]] std::int64_t row_width() const override { return config_.patch_width(); }
  [[nodiscard]] std::int64_t features_of(const Grid& item) const override { return item.patches(); }
  [[nodiscard]] std::int64_t tokens_of(const Grid& item) const override {
    return item.patches() / (config_.merge * config_.merge);
  }
  [[nodiscard]] Grid smallest_item() const override { return {1, config_.merge, config_.merge}; }
  void set_keep(const parallel::KeepOf& keep_of) override;

 private:
  class PatchEmbedding;

  /// Patches in the order of the windows.
  [[nodiscard]] at::Tensor embed_patches(const at::Tensor& rows, std::span<const Grid> grids,
                                         const std::shared_ptr<const PatchLayout>& layout) const;
  [[nodiscard]] std::shared_ptr<const PatchLayout> layout_of(std::span<const Grid> grids,
                                                             at::Device device);
  /// The blocks before a stage of the tower.
  [[nodiscard]] std::int64_t blocks_before(int stage) const;
  [[nodiscard]] bool is_level(std::int64_t block) const;

  config::VisionConfig config_;
  std::unique_ptr<PatchEmbedding> patch_embedding_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  std::vector<std::unique_ptr<PatchMerger>> mergers_;  // of the last block, then of each level
  parallel::Keep keep_merger_ = parallel::Keep::kActivations;
  std::vector<std::shared_ptr<const PatchLayout>> layouts_;  // of the latest grids; few
};

}  // namespace tributary::model
