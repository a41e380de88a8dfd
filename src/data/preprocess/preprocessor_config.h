#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "config/family/model_config.h"

namespace tributary::data {

/// Min and max number of pixels of one resized picture.
struct PixelLimits {
  std::int64_t min = 56 * 56;
  std::int64_t max = 1280 * 28 * 28;

  friend bool operator==(const PixelLimits&, const PixelLimits&) = default;
};

/// Min and max number of tiles that a picture is cut into, a thumbnail not counted.
struct TileLimits {
  std::int64_t min = 1;
  std::int64_t max = 12;

  friend bool operator==(const TileLimits&, const TileLimits&) = default;
};

/// Whether a picture is the only one of its sample.
enum class Company { kAlone, kOthers };
[[nodiscard]] inline Company company_of(std::size_t pictures) {
  return pictures > 1 ? Company::kOthers : Company::kAlone;
}

/// The settings of the image processor of a model. Where the clips of a Qwen-VL model have limits
/// as a whole, the text in front of each step says its time.
struct PreprocessorConfig {
  std::int64_t patch = 14;          // pixels a side
  std::int64_t temporal_patch = 2;  // frames
  std::int64_t merge = 2;           // patches a side of one merged token
  PixelLimits image;
  PixelLimits clip;                                   // of each frame, or of all of them
  bool limits_whole_clip = false;                     // Qwen3-VL
  std::int64_t max_of_frame = std::int64_t{1} << 40;  // of such a clip, by the run's limit
  std::optional<config::VisionConfig> tiles = {};     // the tower of a family that cuts tiles
  TileLimits tile_limits;                             // of InternVL
  std::array<float, 3> mean = {0.48145466F, 0.4578275F, 0.40821073F};
  std::array<float, 3> deviation = {0.26862954F, 0.26130258F, 0.27577711F};

  /// Both sides of a resized picture are multiples of this number of pixels.
  [[nodiscard]] std::int64_t factor() const { return patch * merge; }
  /// Whether each step of a clip has words of its own in the text.
  [[nodiscard]] bool times_clips() const {
    return limits_whole_clip || (tiles && tiles->clips_are_pictures());
  }
  [[nodiscard]] std::int64_t patch_width() const { return 3 * temporal_patch * patch * patch; }
};

/// Reads the settings of DIRECTORY's processor (processor_file.h); where a file or a field is
/// absent, patch sizes come from `vision` and the rest from the struct above.
///
/// units:  `limits` are those of the run (data.min_pixels, data.max_pixels); the result keeps them
///         and those of the file. Tiles keep them together, and a thumbnail does not count
/// errors: Fault::kInput naming file and field: wrong type, out of range, sizes that differ from
///         config.json, limits that leave no size
[[nodiscard]] PreprocessorConfig read_preprocessor_config(const std::string& directory,
                                                          const config::VisionConfig& vision,
                                                          std::optional<PixelLimits> limits);

}  // namespace tributary::data
