#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "core/sample_shape.h"
#include "parallel/layer_boundary.h"
#include "parallel/unit.h"

namespace tributary::model {

/// What the two modules keep for backward.
struct VisionKeep {
  parallel::Keep vision = parallel::Keep::kActivations;
  parallel::Keep projector = parallel::Keep::kActivations;
};

/// The vision tower of Qwen2.5-VL (module `vision`) and its merger (module `projector`).
///
/// All items of a pack pass together. Most blocks attend inside windows, a few inside frames; no
/// patch ever meets a patch of another frame.
class Qwen2_5VlVision {
 public:
  /// Appends its units: the patch embedding, one for each block, and the merger. All lie in the
  /// `first_stage` of the backbone, or the tower `apart` from it; null: there too. Heads and widths
  /// are cut over tp; every tp rank keeps all patches, since attention windows would scatter them.
  Qwen2_5VlVision(const config::VisionConfig& config, const parallel::Layout* apart,
                  const parallel::Layout& first_stage,
                  std::vector<std::unique_ptr<parallel::Unit>>& units);
  ~Qwen2_5VlVision();

  /// shape:  rows [patches, patch_width], items back to back, each in the order of
  ///         docs/theory/numerics.md, "Patch rows" -> returns [merged tokens, output_width], items
  ///         and tokens in their order
  /// dtype:  f32 in; that of the parameters inside and out; rotary angles in f32
  /// errors: Fault::kInput when rows and grids do not match or a grid is impossible
  /// cost:   keeps nothing for backward when neither module is trainable
  /// source: Bai 2025, "Qwen2.5-VL technical report" (arXiv:2502.13923);
  ///         docs/theory/numerics.md, "Vision tower"
  [[nodiscard]] at::Tensor operator()(const at::Tensor& rows, std::span<const Grid> grids,
                                      VisionKeep keep);

  // Its two modules one by one, for a pipeline that cuts between them.
  /// Runs one stage of the tower, or all of it where it has no stages of its own.
  /// shape: input as `rows` above, or after the first stage what the one before returned
  ///        -> returns [patches, width], window by window
  [[nodiscard]] at::Tensor run_tower(int stage, const at::Tensor& input,
                                     std::span<const Grid> grids, parallel::Keep keep);
  /// shape: patches as run_tower returns them -> [merged tokens, output_width]
  [[nodiscard]] at::Tensor project(const at::Tensor& patches, std::span<const Grid> grids,
                                   parallel::Keep keep);

 private:
  class PatchEmbedding;
  class Block;
  class Merger;
  struct Layout;

  /// Patches in the order of the windows.
  [[nodiscard]] at::Tensor embed_patches(const at::Tensor& rows, std::span<const Grid> grids,
                                         const Layout& layout) const;
  [[nodiscard]] std::shared_ptr<const Layout> layout_of(std::span<const Grid> grids,
                                                        at::Device device);

  config::VisionConfig config_;
  std::unique_ptr<PatchEmbedding> patch_embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<Merger> merger_;
  std::vector<std::shared_ptr<const Layout>> layouts_;  // of the latest grids; few
};

}  // namespace tributary::model
