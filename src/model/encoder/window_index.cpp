#include "model/encoder/window_index.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::model {
namespace {

/// Appends one frame of `rows` x `columns` merged tokens, the first of which is `first`.
void append_frame(WindowIndex& index, std::int64_t first, std::int64_t rows, std::int64_t columns,
                  std::int64_t merge, std::int64_t window) {
  for (std::int64_t top = 0; top < rows; top += window)
    for (std::int64_t left = 0; left < columns; left += window) {
      const std::int64_t bottom = std::min(top + window, rows);
      const std::int64_t right = std::min(left + window, columns);
      for (std::int64_t row = top; row < bottom; ++row)
        for (std::int64_t column = left; column < right; ++column) {
          index.order.push_back(first + row * columns + column);
          for (std::int64_t patch = 0; patch < merge * merge; ++patch) {
            index.patch_rows.push_back(row * merge + patch / merge);
            index.patch_columns.push_back(column * merge + patch % merge);
          }
        }
      index.cu_windows.push_back(static_cast<std::int32_t>(index.patch_rows.size()));
    }
  index.cu_frames.push_back(static_cast<std::int32_t>(index.patch_rows.size()));
}

}  // namespace

WindowIndex index_windows(std::span<const Grid> grids, std::int64_t merge, std::int64_t window) {
  WindowIndex index;
  index.cu_windows.push_back(0);
  index.cu_frames.push_back(0);
  std::int64_t first = 0;
  for (const Grid& grid : grids) {
    TRIB_REQUIRE(grid.time > 0 && grid.rows > 0 && grid.columns > 0 && grid.rows % merge == 0 &&
                     grid.columns % merge == 0,
                 .what = "model: impossible grid of an image or clip",
                 .where = str("item ", &grid - grids.data()),
                 .found = str(grid.time, "x", grid.rows, "x", grid.columns, " patches"),
                 .expected = str("at least 1x", merge, "x", merge, ", sides multiples of ", merge));
    const std::int64_t rows = grid.rows / merge;
    const std::int64_t columns = grid.columns / merge;
    for (std::int64_t frame = 0; frame < grid.time; ++frame) {
      append_frame(index, first, rows, columns, merge,
                   window > 0 ? window : std::max(rows, columns));
      first += rows * columns;
    }
  }
  return index;
}

}  // namespace tributary::model
