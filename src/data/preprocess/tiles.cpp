#include "data/preprocess/tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "config/family/anyres.h"

namespace tributary::data {
namespace {

Result<Grid> grid_of(std::int64_t tiles, PictureSize size, const PreprocessorConfig& config) {
  if (size.height < 1 || size.width < 1)
    return Refusal{"no_pixels", str("a picture of ", size.width, "x", size.height, " pixels")};
  const std::int64_t side = config.tiles->tile_side();
  return Grid{tiles, side, side};
}

/// An item without rows, which tiles are written to one after the other.
class TileWriter {
 public:
  TileWriter(const Grid& grid, const PreprocessorConfig& config)
      : grid_(grid), cutter_(config), width_(config.patch_width()) {
    item_.grid = grid;
    item_.rows.resize(static_cast<std::size_t>(grid.patches() * width_));
  }

  /// Cuts the tile of a picture that begins at `corner`.
  void add(const Picture& picture, Corner corner) {
    cutter_.cut(picture, corner, grid_, /*slot=*/0,
                item_.rows.data() + tiles_ * grid_.rows * grid_.columns * width_);
    ++tiles_;
  }
  [[nodiscard]] PatchedItem take() { return std::move(item_); }

 private:
  Grid grid_;
  PatchCutter cutter_;
  std::int64_t width_;
  std::int64_t tiles_ = 0;
  PatchedItem item_;
};

/// Adds the tiles of a picture that covers an arrangement of them.
void add_all(const Picture& canvas, config::TileArrangement arrangement, std::int64_t tile,
             TileWriter& writer) {
  for (std::int64_t row = 0; row < arrangement.rows; ++row)
    for (std::int64_t column = 0; column < arrangement.columns; ++column)
      writer.add(canvas, {row * tile, column * tile});
}

/// InternVL: the tiles, then the whole.
void add_stretched(const Picture& picture, const PreprocessorConfig& config, const Resize& resize,
                   TileWriter& writer) {
  const std::int64_t tile = config.tiles->tile;
  const config::TileArrangement arrangement =
      arrange_tiles({picture.height, picture.width}, tile, config.tile_limits);
  add_all(resized(picture, {arrangement.rows * tile, arrangement.columns * tile}, resize),
          arrangement, tile, writer);
  if (arrangement.tiles() > 1) writer.add(resized(picture, {tile, tile}, resize), {});
}

/// The picture in the middle of a larger one; an odd pixel of the border is right and below.
Picture add_border(const Picture& picture, PictureSize size, std::array<std::uint8_t, 3> colour) {
  Picture padded{static_cast<int>(size.width), static_cast<int>(size.height), {}};
  padded.rgb.resize(static_cast<std::size_t>(3 * size.width * size.height));
  for (std::size_t i = 0; i < padded.rgb.size(); ++i) padded.rgb[i] = colour[i % 3];
  const std::int64_t top = (size.height - picture.height) / 2;
  const std::int64_t left = (size.width - picture.width) / 2;
  for (std::int64_t row = 0; row < picture.height; ++row)
    std::copy_n(picture.rgb.begin() + 3 * row * picture.width, 3 * picture.width,
                padded.rgb.begin() + 3 * ((top + row) * size.width + left));
  return padded;
}

/// The size of a picture that keeps its ratio of sides within a larger one.
PictureSize size_within(PictureSize size, PictureSize within) {
  const auto ratio = [](std::int64_t side, std::int64_t of) {
    return static_cast<double>(side) / static_cast<double>(of);
  };
  const auto scaled = [](std::int64_t side, double scale, std::int64_t max) {
    return std::min(static_cast<std::int64_t>(std::ceil(static_cast<double>(side) * scale)), max);
  };
  const double wide = ratio(within.width, size.width);
  const double high = ratio(within.height, size.height);
  if (wide < high) return {scaled(size.height, wide, within.height), within.width};
  return {within.height, scaled(size.width, high, within.width)};
}

/// LLaVA-OneVision: the whole, then the tiles of the picture with a border of black; beside others
/// one tile with a border of the mean colour.
void add_padded(const Picture& picture, const PreprocessorConfig& config, Company company,
                const Resize& resize, TileWriter& writer) {
  const std::int64_t tile = config.tiles->tile;
  const PictureSize size{picture.height, picture.width};
  if (company == Company::kOthers) {
    std::array<std::uint8_t, 3> mean{};
    for (std::size_t channel = 0; channel < 3; ++channel)
      mean[channel] = static_cast<std::uint8_t>(config.mean[channel] * 255.0F);
    const std::int64_t side = std::max(size.height, size.width);
    writer.add(resized(add_border(picture, {side, side}, mean), {tile, tile}, resize), {});
    return;
  }
  const config::TileArrangement arrangement =
      config::choose_arrangement(*config.tiles, size.height, size.width);
  const PictureSize canvas{arrangement.rows * tile, arrangement.columns * tile};
  writer.add(resized(picture, {tile, tile}, resize), {});
  add_all(add_border(resized(picture, size_within(size, canvas), resize), canvas, {}), arrangement,
          tile, writer);
}

}  // namespace

config::TileArrangement arrange_tiles(PictureSize size, std::int64_t tile, TileLimits limits) {
  std::vector<config::TileArrangement> all;
  for (std::int64_t columns = 1; columns <= limits.max; ++columns)
    for (std::int64_t rows = 1; rows <= limits.max; ++rows)
      if (rows * columns <= limits.max && rows * columns >= limits.min)
        all.push_back({rows, columns});
  std::ranges::stable_sort(all, {}, &config::TileArrangement::tiles);
  const auto ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  const auto area = static_cast<double>(size.width * size.height);
  double min = INFINITY;
  config::TileArrangement best;
  for (const config::TileArrangement& each : all) {
    const double difference =
        std::abs(ratio - static_cast<double>(each.columns) / static_cast<double>(each.rows));
    const bool fills = area > 0.5 * static_cast<double>(tile * tile * each.tiles());
    if (difference < min || (difference == min && fills)) best = each;
    min = std::min(min, difference);
  }
  return best;
}

Result<Grid> grid_of_tiles(PictureSize size, const PreprocessorConfig& config, Company company) {
  Result<Grid> grid = grid_of(1, size, config);
  if (!grid) return grid;
  Grid cut = grid.value();
  if (config.tiles->arrangements.empty()) {
    const std::int64_t tiles = arrange_tiles(size, config.tiles->tile, config.tile_limits).tiles();
    cut.time = tiles == 1 ? 1 : tiles + 1;
    return cut;
  }
  cut.mosaic = {1, cut.rows, cut.columns};
  if (company == Company::kOthers) return cut;
  cut.mosaic = config::mosaic_of(*config.tiles, size.height, size.width);
  cut.time = 1 + config::choose_arrangement(*config.tiles, size.height, size.width).tiles();
  return cut;
}

Result<Grid> grid_of_tiled_clip(PictureSize size, std::int64_t frames,
                                const PreprocessorConfig& config) {
  return grid_of(frames, size, config);
}

Result<PatchedItem> cut_tiles(const Picture& picture, const PreprocessorConfig& config,
                              Company company, const Resize& resize) {
  const PictureSize size{picture.height, picture.width};
  const Result<Grid> grid = grid_of_tiles(size, config, company);
  if (!grid) return grid.refusal();
  TileWriter writer(grid.value(), config);
  if (!config.tiles->arrangements.empty())
    add_padded(picture, config, company, resize, writer);
  else
    add_stretched(picture, config, resize, writer);
  return writer.take();
}

PatchedItem cut_clip_tiles(std::span<const Picture* const> frames, const Grid& grid,
                           const PreprocessorConfig& config, const Resize& resize) {
  const std::int64_t tile = config.tiles->tile;
  TileWriter writer(grid, config);
  for (const Picture* frame : frames) writer.add(resized(*frame, {tile, tile}, resize), {});
  PatchedItem item = writer.take();
  if (!config.tiles->clips_are_pictures()) item.modality = Modality::kVideo;
  return item;
}

}  // namespace tributary::data
