#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"

namespace tributary {

/// How the tiles of a picture lie, and its patches over all of them without those of padding; of
/// families whose tokens depend on that.
struct Mosaic {
  std::int64_t tile_columns = 0;  // tiles side by side; 0: this is no such picture
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  friend bool operator==(const Mosaic&, const Mosaic&) = default;
};

/// The patches of one image or clip as a grid: steps in time, or tiles, rows, columns.
struct Grid {
  std::int64_t time = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Mosaic mosaic = {};

  [[nodiscard]] std::int64_t patches() const { return time * rows * columns; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

enum class Modality { kText, kImage, kVideo, kAudio };

/// The torch-free size of a sample: all that packing, balancing and simulation may know of it.
struct SampleShape {
  Tokens tokens;         // backbone positions: text and merged media tokens
  Tokens target_tokens;  // those that count in the loss
  std::vector<Grid> images;
  std::vector<Grid> videos;
  std::vector<std::int64_t> clips = {};  // sound: positions after the encoder's convolutions

  /// Its media of one modality that have patches, in order of appearance.
  [[nodiscard]] const std::vector<Grid>& grids(Modality modality) const {
    return modality == Modality::kVideo ? videos : images;
  }

  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

}  // namespace tributary
