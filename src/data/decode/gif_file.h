#pragma once

#include <cstdint>
#include <span>

#include "core/result.h"
#include "data/decode/picture_limits.h"
#include "data/sample.h"

namespace tributary::data {

[[nodiscard]] bool is_gif(std::span<const std::uint8_t> file);

/// Decodes the first frame of a GIF onto its canvas. Where the frame leaves the canvas open, it has
/// the transparent colour of the frame, else colour 0.
///
/// errors: as decode_picture
[[nodiscard]] Result<Picture> decode_gif(std::span<const std::uint8_t> file,
                                         const PictureLimits& limits);
[[nodiscard]] Result<PictureSize> read_gif_size(std::span<const std::uint8_t> file,
                                                const PictureLimits& limits);

}  // namespace tributary::data
