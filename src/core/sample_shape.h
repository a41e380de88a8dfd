#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
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

/// The input rows of one item as a grid. Of an image or clip they are patches: steps in time, or
/// tiles, rows, columns. Of a sound they are frames of its spectrogram: 1, 1, frames.
struct Grid {
  std::int64_t time = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Mosaic mosaic = {};

  [[nodiscard]] std::int64_t patches() const { return time * rows * columns; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

enum class Modality { kText, kImage, kVideo, kAudio };

/// The modalities whose items encoders take, in the order in which a pack holds them.
inline constexpr std::array kMediaModalities{Modality::kImage, Modality::kVideo, Modality::kAudio};

class ModalitySet {
 public:
  constexpr ModalitySet() = default;
  constexpr ModalitySet(std::initializer_list<Modality> modalities)
      : ModalitySet(std::span(modalities.begin(), modalities.size())) {}
  constexpr explicit ModalitySet(std::span<const Modality> modalities) {
    for (const Modality each : modalities) bits_ |= 1U << static_cast<unsigned>(each);
  }

  [[nodiscard]] constexpr bool has(Modality modality) const {
    return (bits_ >> static_cast<unsigned>(modality) & 1U) != 0;
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  constexpr ModalitySet& operator|=(ModalitySet other) {
    bits_ |= other.bits_;
    return *this;
  }
  [[nodiscard]] constexpr ModalitySet without(ModalitySet other) const {
    ModalitySet left;
    left.bits_ = bits_ & ~other.bits_;
    return left;
  }
  friend bool operator==(ModalitySet, ModalitySet) = default;

 private:
  unsigned bits_ = 0;
};

/// Frames of a spectrogram that become one position of its encoder: the convolutions of Whisper.
inline constexpr std::int64_t kFramesOfPosition = 2;

/// The torch-free size of a sample: all that packing, balancing and simulation may know of it.
struct SampleShape {
  Tokens tokens;         // backbone positions: text and merged media tokens
  Tokens target_tokens;  // those that count in the loss
  Tokens rejected = {};  // of a pair: those of `tokens` in the second sequence, the rejected one
  std::vector<Grid> images;
  std::vector<Grid> videos;
  std::vector<Grid> sounds = {};

  /// Its media of one modality, in order of appearance.
  [[nodiscard]] const std::vector<Grid>& grids(Modality modality) const {
    if (modality == Modality::kAudio) return sounds;
    return modality == Modality::kVideo ? videos : images;
  }
  [[nodiscard]] std::vector<Grid>& grids(Modality modality) {
    return const_cast<std::vector<Grid>&>(std::as_const(*this).grids(modality));  // NOLINT
  }

  /// The same sample without its media of some modalities.
  [[nodiscard]] SampleShape without(ModalitySet modalities) const {
    SampleShape shape = *this;
    for (const Modality modality : kMediaModalities)
      if (modalities.has(modality)) shape.grids(modality).clear();
    return shape;
  }

  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

}  // namespace tributary
