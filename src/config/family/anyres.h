#pragma once

#include <cstdint>

#include "config/family/model_config.h"
#include "core/sample_shape.h"

namespace tributary::config {

// LLaVA-OneVision lays a picture over one of some arrangements of tiles, keeps its ratio of sides,
// and fills the rest with padding, of which the backbone sees nothing.
// source: docs/theory/numerics.md, "Tiles"

/// The arrangement that keeps most of a picture's pixels and, of those, wastes least.
/// units: sides of the picture in pixels, above 0
[[nodiscard]] TileArrangement choose_arrangement(const VisionConfig& vision, std::int64_t height,
                                                 std::int64_t width);

/// How the tiles of this picture lie, and its patches without those of padding.
[[nodiscard]] Mosaic mosaic_of(const VisionConfig& vision, std::int64_t height, std::int64_t width);

/// Rows and columns of tokens that the patches of a mosaic become: fewer where there are many.
struct TokenRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
[[nodiscard]] TokenRows token_rows_of(const VisionConfig& vision, const Mosaic& mosaic);

/// Tokens a side that each frame of a clip becomes.
[[nodiscard]] std::int64_t clip_side_of(const VisionConfig& vision);

}  // namespace tributary::config
