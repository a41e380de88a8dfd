#include "data/preprocess/qwen_vl.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/preprocess/cut_patches.h"
#include "data/preprocess/tiles.h"

namespace tributary::data {
namespace {

PatchedItem cut_frames(std::span<const Picture* const> frames, const Grid& grid,
                       const PreprocessorConfig& config, const Resize& resize) {
  PatchedItem item{.grid = grid, .rows = {}};
  item.rows.resize(grid.patches() * config.patch_width());
  const PatchCutter cutter(config);
  const std::int64_t step_values = grid.rows * grid.columns * config.patch_width();
  const PictureSize size{grid.rows * config.patch, grid.columns * config.patch};
  Picture frame;
  for (std::int64_t slot = 0; slot < grid.time * config.temporal_patch; ++slot) {
    if (slot < std::ssize(frames)) frame = resized(*frames[slot], size, resize);
    float* step_rows = item.rows.data() + slot / config.temporal_patch * step_values;
    cutter.cut(frame, {}, grid, slot % config.temporal_patch, step_rows);
  }
  return item;
}

PictureSize size_of(const Picture& picture) { return {picture.height, picture.width}; }

/// Python's round: halves go to the even neighbour, as nearbyint does in the default mode.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

}  // namespace

Result<PictureSize> smart_resize(PictureSize size, std::int64_t factor, PixelLimits limits) {
  if (size.height < 1 || size.width < 1)
    return Refusal{"no_pixels", str("a picture of ", size.width, "x", size.height, " pixels")};
  const double height = static_cast<double>(size.height);
  const double width = static_cast<double>(size.width);
  const double unit = static_cast<double>(factor);
  if (std::max(height, width) / std::min(height, width) > 200)
    return Refusal{"extreme_aspect", str("a picture of ", size.width, "x", size.height,
                                         " pixels: one side is more than 200 times the other")};
  PictureSize result{rounded(height / unit) * factor, rounded(width / unit) * factor};
  const std::int64_t pixels = result.height * result.width;
  // Counts in units of the factor, in the reference's order of operations.
  const auto floored = [&](double side, double shrink) {
    return std::max(factor, static_cast<std::int64_t>(std::floor(side / shrink / unit)) * factor);
  };
  const auto ceiled = [&](double side, double grow) {
    return static_cast<std::int64_t>(std::ceil(side * grow / unit)) * factor;
  };
  if (pixels > limits.max) {
    const double shrink = std::sqrt(height * width / static_cast<double>(limits.max));
    result = {floored(height, shrink), floored(width, shrink)};
  } else if (pixels < limits.min) {
    const double grow = std::sqrt(static_cast<double>(limits.min) / (height * width));
    result = {ceiled(height, grow), ceiled(width, grow)};
  }
  return result;
}

/// The size of the frames of a clip whose limits hold for all frames together.
Result<PictureSize> resize_whole_clip(PictureSize size, std::int64_t frames,
                                      const PreprocessorConfig& config) {
  const std::int64_t factor = config.factor();
  const double unit = static_cast<double>(factor);
  double height = static_cast<double>(size.height);
  double width = static_cast<double>(size.width);
  if (size.height < 1 || size.width < 1)
    return Refusal{"no_pixels", str("frames of ", size.width, "x", size.height, " pixels")};
  if (std::max(height, width) / std::min(height, width) > 200)
    return Refusal{"extreme_aspect", str("frames of ", size.width, "x", size.height,
                                         " pixels: one side is more than 200 times the other")};
  if (const double grow = std::max(unit / height, unit / width); grow > 1) {
    height = std::floor(height * grow);
    width = std::floor(width * grow);
  }
  const double count = static_cast<double>(frames);
  const double step = static_cast<double>(config.temporal_patch);
  const double in_all = static_cast<double>(rounded(count / step)) * step;
  PictureSize result{rounded(height / unit) * factor, rounded(width / unit) * factor};
  const double pixels = in_all * static_cast<double>(result.height * result.width);
  // Counts in units of the factor, in the reference's order of operations.
  const auto units = [&](double count_of_units) {
    return std::max(factor, static_cast<std::int64_t>(count_of_units) * factor);
  };
  const double max = std::min(static_cast<double>(config.clip.max),
                              in_all * static_cast<double>(config.max_of_frame));
  if (pixels > max) {
    const double shrink = std::sqrt(count * height * width / max);
    result = {units(std::floor(height / shrink / unit)), units(std::floor(width / shrink / unit))};
  } else if (pixels < static_cast<double>(config.clip.min)) {
    const double grow = std::sqrt(static_cast<double>(config.clip.min) / (count * height * width));
    result = {units(std::ceil(height * grow / unit)), units(std::ceil(width * grow / unit))};
  }
  return result;
}

Result<Grid> grid_of_image(PictureSize size, const PreprocessorConfig& config, Company company) {
  if (config.tiles) return grid_of_tiles(size, config, company);
  const Result<PictureSize> resized_size = smart_resize(size, config.factor(), config.image);
  if (!resized_size) return resized_size.refusal();
  return Grid{1, resized_size.value().height / config.patch,
              resized_size.value().width / config.patch};
}

Result<Grid> grid_of_clip(PictureSize size, std::int64_t frames, const PreprocessorConfig& config) {
  if (frames < 1) return Refusal{"no_frames", "a clip without frames"};
  if (config.tiles) return grid_of_tiled_clip(size, frames, config);
  const Result<PictureSize> resized_size = config.limits_whole_clip
                                               ? resize_whole_clip(size, frames, config)
                                               : smart_resize(size, config.factor(), config.clip);
  if (!resized_size) return resized_size.refusal();
  return Grid{(frames + config.temporal_patch - 1) / config.temporal_patch,
              resized_size.value().height / config.patch,
              resized_size.value().width / config.patch};
}

std::int64_t merged_tokens(const Grid& grid, const PreprocessorConfig& config) {
  return config.tiles ? config::tokens_of_tiles(*config.tiles, grid)
                      : grid.patches() / (config.merge * config.merge);
}

std::vector<double> times_of_clip(std::span<const double> seconds,
                                  const PreprocessorConfig& config) {
  std::vector<double> times;
  if (!config.times_clips()) return times;
  if (config.tiles) return {seconds.begin(), seconds.end()};  // each frame is a step
  const auto joined = static_cast<std::size_t>(config.temporal_patch);
  for (std::size_t first = 0; first < seconds.size(); first += joined) {
    const std::size_t last = std::min(first + joined, seconds.size()) - 1;
    times.push_back((seconds[first] + seconds[last]) / 2);
  }
  return times;
}

Result<PatchedItem> patch_image(const Picture& picture, const PreprocessorConfig& config,
                                const Resize& resize, Company company) {
  if (config.tiles) return cut_tiles(picture, config, company, resize);
  const Result<Grid> grid = grid_of_image(size_of(picture), config);
  if (!grid) return grid.refusal();
  // An image is a clip of one frame, which cut_frames repeats.
  const Picture* only[] = {&picture};
  PatchedItem item = cut_frames(only, grid.value(), config, resize);
  item.modality = Modality::kImage;
  return item;
}

Result<PatchedItem> patch_clip(std::span<const Picture> frames, double fps,
                               const PreprocessorConfig& config, const Resize& resize) {
  TRIB_REQUIRE(fps > 0, .what = "data: frames per second of a clip must be positive",
               .found = str(fps));
  std::vector<const Picture*> list;
  for (const Picture& frame : frames) {
    if (size_of(frame) != size_of(frames.front()))
      return Refusal{"frame_sizes",
                     str("frame ", list.size(), " has ", frame.width, "x", frame.height,
                         " pixels, the first ", frames[0].width, "x", frames[0].height)};
    list.push_back(&frame);
  }
  const Result<Grid> grid = grid_of_clip(frames.empty() ? PictureSize{} : size_of(frames.front()),
                                         std::ssize(frames), config);
  if (!grid) return grid.refusal();
  if (config.tiles) return cut_clip_tiles(list, grid.value(), config, resize);
  PatchedItem item = clip_without_rows(grid.value(), fps, config);
  item.rows = cut_frames(list, grid.value(), config, resize).rows;
  return item;
}

PatchedItem clip_without_rows(const Grid& grid, double fps, const PreprocessorConfig& config) {
  PatchedItem item{.modality = Modality::kVideo, .grid = grid, .rows = {}};
  if (!config.tiles)
    item.seconds_per_step = static_cast<double>(config.temporal_patch) / fps;
  else if (config.tiles->clips_are_pictures())
    item.modality = Modality::kImage;
  return item;
}

}  // namespace tributary::data
