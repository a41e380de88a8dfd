#include "config/family/anyres.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace tributary::config {
namespace {

double real(std::int64_t count) { return static_cast<double>(count); }

/// Python's int(round(value, 7)).
std::int64_t cut_rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value * 1e7) / 1e7);
}

/// Python's value // divisor of two positive floats.
std::int64_t floor_divided(double value, double divisor) {
  const double quotient = (value - std::fmod(value, divisor)) / divisor;
  return static_cast<std::int64_t>(std::nearbyint(quotient));
}

}  // namespace

TileArrangement choose_arrangement(const VisionConfig& vision, std::int64_t height,
                                   std::int64_t width) {
  TRIB_CHECK(!vision.arrangements.empty(), .what = "config: tower without arrangements of tiles");
  std::int64_t max_kept = 0;
  std::int64_t min_wasted = std::numeric_limits<std::int64_t>::max();
  TileArrangement best = vision.arrangements.front();
  for (const TileArrangement& each : vision.arrangements) {
    const std::int64_t rows = each.rows * vision.tile;
    const std::int64_t columns = each.columns * vision.tile;
    const double scale = std::min(real(columns) / real(width), real(rows) / real(height));
    const auto scaled = [scale](std::int64_t side) {
      return static_cast<std::int64_t>(real(side) * scale);
    };
    const std::int64_t kept = std::min(scaled(width) * scaled(height), width * height);
    const std::int64_t wasted = rows * columns - kept;
    if (kept < max_kept || (kept == max_kept && wasted >= min_wasted)) continue;
    max_kept = kept;
    min_wasted = wasted;
    best = each;
  }
  return best;
}

Mosaic mosaic_of(const VisionConfig& vision, std::int64_t height, std::int64_t width) {
  const TileArrangement arrangement = choose_arrangement(vision, height, width);
  Mosaic mosaic{.tile_columns = arrangement.columns,
                .rows = arrangement.rows * vision.tile_side(),
                .columns = arrangement.columns * vision.tile_side()};
  const double ratio = real(width) / real(height);
  if (ratio > real(mosaic.columns) / real(mosaic.rows)) {
    const std::int64_t kept = cut_rounded(real(height) * (real(mosaic.columns) / real(width)));
    mosaic.rows -= (mosaic.rows - kept) / 2 * 2;
  } else {
    const std::int64_t kept = cut_rounded(real(width) * (real(mosaic.rows) / real(height)));
    mosaic.columns -= (mosaic.columns - kept) / 2 * 2;
  }
  return mosaic;
}

TokenRows token_rows_of(const VisionConfig& vision, const Mosaic& mosaic) {
  const std::int64_t max = vision.max_tiles * vision.tile_side() * vision.tile_side();
  const double shrink = std::sqrt(real(mosaic.rows * mosaic.columns) / real(max));
  if (shrink <= 1.1) return {mosaic.rows, mosaic.columns};
  return {floor_divided(real(mosaic.rows), shrink), floor_divided(real(mosaic.columns), shrink)};
}

std::int64_t clip_side_of(const VisionConfig& vision) { return (vision.tile_side() + 1) / 2; }

}  // namespace tributary::config
