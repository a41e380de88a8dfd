#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/result.h"
#include "data/preprocess/preprocessor_config.h"
#include "data/record/record.h"
#include "data/sample.h"

namespace tributary::data {

/// What is known of a clip before a pixel of it is decoded.
struct ClipFrames {
  PictureSize size;                   // of every frame
  std::vector<double> seconds;        // [frames] when each one is shown
  double fps = 0;                     // frames per second of those that are taken
  std::vector<std::int64_t> in_file;  // [frames] their numbers in a video file
};

/// Measures the frames of a clip by the headers of its pictures, or by the header of its video
/// file, of which frames are taken as `config` samples them.
///
/// errors: Refusal of the pictures (measure_picture) or of the file (read_video_header);
///         `frame_sizes` when pictures differ in size
[[nodiscard]] Result<ClipFrames> measure_clip(const Record& record, const Clip& clip,
                                              const PreprocessorConfig& config);

/// Decodes the frames that measure_clip has found.
[[nodiscard]] Result<std::vector<Picture>> decode_clip(const Record& record, const Clip& clip,
                                                       const ClipFrames& frames);

/// What encoding gives of a medium, without its rows: of a clip, headers say how fast it goes.
///
/// errors: of a clip, as measure_clip
[[nodiscard]] Result<PatchedItem> item_without_rows(
    const Record& record, MediaReference medium, const Grid& grid,
    const std::optional<PreprocessorConfig>& config);

}  // namespace tributary::data
