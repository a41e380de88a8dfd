#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/sample_shape.h"

namespace tributary::data {

inline constexpr std::int64_t kIgnoredTarget = -100;

/// One image or clip, cut into patches, or one sound, as frames of its spectrogram: all that an
/// encoder takes.
struct PatchedItem {
  Modality modality = Modality::kImage;
  Grid grid;
  double seconds_per_step = 0;  // in a clip: time between two grid steps
  std::vector<float> rows;      // [grid.patches(), row width]
};

/// One training example, tokenised and decoded. A pair of answers is one example of two sequences,
/// the chosen one and behind it the rejected one, each with its prompt and its media.
struct EncodedSample {
  std::int64_t id = 0;                // position in the run's data order
  int source = 0;                     // index in data.sources
  std::string key;                    // file:line of the record
  std::vector<std::int32_t> tokens;   // media placeholders expanded
  std::vector<std::int64_t> targets;  // per token: the NEXT token where it counts, else -100
  std::vector<PatchedItem> items;     // in order of appearance
  std::int64_t rejected = 0;          // of a pair: how many of the tokens are the rejected one's

  [[nodiscard]] SampleShape shape() const;
};

/// Sides of a picture in pixels.
struct PictureSize {
  std::int64_t height = 0;
  std::int64_t width = 0;

  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};

/// An 8-bit picture, rows from the top, red green blue.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

}  // namespace tributary::data
