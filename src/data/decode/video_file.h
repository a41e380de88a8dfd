#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "data/decode/picture_limits.h"
#include "data/sample.h"

namespace tributary::data {

/// What the header of a video file says of its pictures.
struct VideoHeader {
  PictureSize size;
  std::int64_t frames = 0;
  double fps = 0;  // frames per second, on average
};

/// Reads the header of the first video stream of a file in any container that FFmpeg knows. Where
/// it does not count its frames, their packets are counted.
///
/// errors: Refusal `video_damaged`, `too_large`, `bad_aspect`, `empty_picture`, `no_frames`;
///         `video_reader` where the library is not built
[[nodiscard]] Result<VideoHeader> read_video_header(std::span<const std::uint8_t> file,
                                                    const PictureLimits& limits = {});

/// Decodes the frames with these numbers, from 0 in the order in which they are shown, into 8-bit
/// RGB. The matrix and range of colours are those that the stream states; a stated rotation is not
/// applied.
///
/// shape:  indices ascend, none twice -> one picture for each
/// errors: as read_video_header; `video_damaged` also where the file holds fewer frames
/// cost:   decodes all frames up to the last index
[[nodiscard]] Result<std::vector<Picture>> decode_video(std::span<const std::uint8_t> file,
                                                        std::span<const std::int64_t> indices,
                                                        const PictureLimits& limits = {});

}  // namespace tributary::data
