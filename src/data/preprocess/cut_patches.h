#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "data/preprocess/preprocessor_config.h"
#include "data/sample.h"

namespace tributary::data {

/// Resizes a picture to (height, width). Callers pass `ops/resize_bicubic.h`, which agrees with
/// transformers to the last bit; it needs torch, which this room may not use.
using Resize = std::function<Picture(const Picture&, int height, int width)>;

/// The picture in another size; as it is where it has that size.
[[nodiscard]] Picture resized(const Picture& picture, PictureSize size, const Resize& resize);

/// A pixel of a picture.
struct Corner {
  std::int64_t top = 0;
  std::int64_t left = 0;
};

/// Cuts pictures into normalised rows, one a patch, in the order of docs/theory/numerics.md, "Patch
/// rows".
class PatchCutter {
 public:
  /// owns: borrows `config`
  explicit PatchCutter(const PreprocessorConfig& config);

  /// Writes one frame's share of the rows of one step of a grid, whose patches begin at `corner`.
  /// shape: step_rows [rows * columns, patch_width]; `slot` is the place of the frame in the step
  void cut(const Picture& frame, Corner corner, const Grid& grid, std::int64_t slot,
           float* step_rows) const;

 private:
  void cut_patch(const Picture& frame, Corner corner, std::int64_t slot, float* row) const;

  const PreprocessorConfig& config_;
  std::array<std::array<float, 256>, 3> levels_;  // [channel][level], normalised
};

}  // namespace tributary::data
