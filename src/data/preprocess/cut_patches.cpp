#include "data/preprocess/cut_patches.h"

#include "core/error.h"

namespace tributary::data {

Picture resized(const Picture& picture, PictureSize size, const Resize& resize) {
  if (picture.height == size.height && picture.width == size.width) return picture;
  Picture result = resize(picture, static_cast<int>(size.height), static_cast<int>(size.width));
  TRIB_CHECK(result.height == size.height && result.width == size.width &&
                 std::ssize(result.rgb) == 3 * size.height * size.width,
             .what = "data: resize gave another size",
             .found = str(result.height, "x", result.width),
             .expected = str(size.height, "x", size.width));
  return result;
}

PatchCutter::PatchCutter(const PreprocessorConfig& config) : config_(config) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    // The reference folds the division by 255 into mean and deviation, in f32.
    const float mean = config.mean[channel] * 255.0F;
    const float deviation = config.deviation[channel] * 255.0F;
    for (std::size_t level = 0; level < 256; ++level)
      levels_[channel][level] = (static_cast<float>(level) - mean) / deviation;
  }
}

void PatchCutter::cut(const Picture& frame, Corner corner, const Grid& grid, std::int64_t slot,
                      float* step_rows) const {
  const std::int64_t merge = config_.merge;
  float* row = step_rows;
  for (std::int64_t block_row = 0; block_row < grid.rows; block_row += merge)
    for (std::int64_t block_column = 0; block_column < grid.columns; block_column += merge)
      for (std::int64_t y = block_row; y < block_row + merge; ++y)
        for (std::int64_t x = block_column; x < block_column + merge; ++x) {
          cut_patch(frame, {corner.top + y * config_.patch, corner.left + x * config_.patch}, slot,
                    row);
          row += config_.patch_width();
        }
}

void PatchCutter::cut_patch(const Picture& frame, Corner corner, std::int64_t slot,
                            float* row) const {
  const std::int64_t side = config_.patch;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const std::array<float, 256>& level = levels_[channel];
    float* out =
        row + (static_cast<std::int64_t>(channel) * config_.temporal_patch + slot) * side * side;
    for (std::int64_t y = 0; y < side; ++y) {
      const std::uint8_t* in =
          frame.rgb.data() + 3 * ((corner.top + y) * frame.width + corner.left) + channel;
      for (std::int64_t x = 0; x < side; ++x) *out++ = level[in[3 * x]];
    }
  }
}

}  // namespace tributary::data
