#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "data/decode/sound_file.h"
#include "data/decode/video_file.h"

namespace tributary::data {

/// The functions of the library libtributary_video.so, which FFmpeg's libraries come with. It is
/// loaded when the first file that needs it is met: they are many, and most runs need none.
struct MediaLibrary {
  Result<VideoHeader> (*read_video_header)(std::span<const std::uint8_t> file,
                                           const PictureLimits& limits);
  Result<std::vector<Picture>> (*decode_video)(std::span<const std::uint8_t> file,
                                               std::span<const std::int64_t> indices,
                                               const PictureLimits& limits);
  Result<SoundSize> (*read_sound_size)(std::span<const std::uint8_t> file,
                                       const SoundLimits& limits);
  Result<Sound> (*decode_sound)(std::span<const std::uint8_t> file, const SoundLimits& limits);
};

/// errors: Refusal `video_reader` where the library is not built
[[nodiscard]] Result<const MediaLibrary*> load_media_library();

}  // namespace tributary::data
