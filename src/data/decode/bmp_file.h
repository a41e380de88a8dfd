#pragma once

#include <cstdint>
#include <span>

#include "core/result.h"
#include "data/decode/picture_limits.h"
#include "data/sample.h"

namespace tributary::data {

[[nodiscard]] bool is_bmp(std::span<const std::uint8_t> file);

/// Decodes a BMP of 1, 4, 8, 16, 24 or 32 bits a pixel, from bottom to top or from top to bottom.
/// Run lengths, embedded JPEG and PNG, and masks that are no 5 or 8 bits wide (6 for green of 16)
/// are not read.
///
/// errors: as decode_picture; `bmp_unsupported`
[[nodiscard]] Result<Picture> decode_bmp(std::span<const std::uint8_t> file,
                                         const PictureLimits& limits);
[[nodiscard]] Result<PictureSize> read_bmp_size(std::span<const std::uint8_t> file,
                                                const PictureLimits& limits);

}  // namespace tributary::data
