#pragma once

#include <cstdint>
#include <span>

#include "core/result.h"
#include "data/preprocess/cut_patches.h"
#include "data/preprocess/preprocessor_config.h"
#include "data/sample.h"

namespace tributary::data {

// Pictures of families that cut them into tiles of one size: `config.tiles` is set. A step of a
// grid is a tile, tiles lie row by row.

/// The arrangement whose sides are most alike those of the picture; of several that are equally
/// alike the last that the picture fills by half.
[[nodiscard]] config::TileArrangement arrange_tiles(PictureSize size, std::int64_t tile,
                                                    TileLimits limits);

/// Of LLaVA-OneVision a picture beside others in a sample is one tile.
/// errors: Refusal `no_pixels` when a side is below 1
[[nodiscard]] Result<Grid> grid_of_tiles(PictureSize size, const PreprocessorConfig& config,
                                         Company company);
/// A clip has a tile for each frame. errors: as grid_of_tiles
[[nodiscard]] Result<Grid> grid_of_tiled_clip(PictureSize size, std::int64_t frames,
                                              const PreprocessorConfig& config);

/// Resizes a picture over its tiles, normalises them and cuts them into rows. The whole picture in
/// the size of a tile comes last where InternVL has several tiles, and first of LLaVA-OneVision,
/// which keeps the ratio of sides and fills up with padding.
///
/// errors: those of grid_of_tiles
/// source: docs/theory/numerics.md, "Tiles"
[[nodiscard]] Result<PatchedItem> cut_tiles(const Picture& picture,
                                            const PreprocessorConfig& config, Company company,
                                            const Resize& resize);
/// As cut_tiles, of the frames of a clip with this grid.
[[nodiscard]] PatchedItem cut_clip_tiles(std::span<const Picture* const> frames, const Grid& grid,
                                         const PreprocessorConfig& config, const Resize& resize);

}  // namespace tributary::data
