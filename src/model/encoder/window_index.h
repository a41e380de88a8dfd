#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sample_shape.h"

namespace tributary::model {

/// How the items of a pack are laid out for window attention: a merged token is `merge` x `merge`
/// patches, a window `window` x `window` merged tokens of one frame; windows at the edge are
/// smaller.
struct WindowIndex {
  std::vector<std::int64_t> order;       // [merged tokens]: token at each place, window by window
  std::vector<std::int32_t> cu_windows;  // [windows + 1], in patches
  std::vector<std::int32_t> cu_frames;   // [frames + 1], in patches; windows never cross a frame
  std::vector<std::int64_t> patch_rows;  // [patches]: row of the patch at each place, in its frame
  std::vector<std::int64_t> patch_columns;
};

/// units:  grids in patches; `window` in merged tokens, 0: each frame is one
/// errors: Fault::kInput when a grid is empty or no multiple of `merge`
/// cost:   O(patches)
/// source: docs/theory/numerics.md, "Attention windows"
[[nodiscard]] WindowIndex index_windows(std::span<const Grid> grids, std::int64_t merge,
                                        std::int64_t window);

}  // namespace tributary::model
