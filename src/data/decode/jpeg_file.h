#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "data/decode/picture_limits.h"
#include "data/sample.h"

namespace tributary::data {

[[nodiscard]] bool is_jpeg(std::span<const std::uint8_t> file);

/// Decodes a JPEG upright, with the accurate DCT; libjpeg's warnings are errors.
///
/// CMYK and YCCK are read as Adobe's inverted inks, as Pillow does. An orientation outside 1..8
/// counts as 1.
/// errors: as decode_picture
[[nodiscard]] Result<Picture> decode_jpeg(std::span<const std::uint8_t> file,
                                          const PictureLimits& limits);
[[nodiscard]] Result<PictureSize> read_jpeg_size(std::span<const std::uint8_t> file,
                                                 const PictureLimits& limits);

/// Writes a baseline JPEG with 4:2:0 colour.
///
/// units:  quality in [1, 100]
/// errors: Fault::kBug when rgb is not width * height * 3 values
[[nodiscard]] std::vector<std::uint8_t> write_jpeg(const Picture& picture, int quality);

}  // namespace tributary::data
