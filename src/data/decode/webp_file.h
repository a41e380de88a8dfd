#pragma once

#include <cstdint>
#include <span>

#include "core/result.h"
#include "data/decode/picture_limits.h"
#include "data/sample.h"

namespace tributary::data {

[[nodiscard]] bool is_webp(std::span<const std::uint8_t> file);

/// Decodes a WebP, lossy or lossless, upright; of an animation the first frame.
///
/// errors: as decode_picture
[[nodiscard]] Result<Picture> decode_webp(std::span<const std::uint8_t> file,
                                          const PictureLimits& limits);
[[nodiscard]] Result<PictureSize> read_webp_size(std::span<const std::uint8_t> file,
                                                 const PictureLimits& limits);

}  // namespace tributary::data
