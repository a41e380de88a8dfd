#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "data/decode/picture_limits.h"
#include "data/sample.h"

namespace tributary::data {

[[nodiscard]] bool is_png(std::span<const std::uint8_t> file);

/// Decodes a PNG of any colour type and depth, interlaced or not; an APNG gives its default image.
///
/// CRC errors are fatal in every chunk; text, profile and unknown chunks are checked and skipped.
/// errors: as decode_picture
[[nodiscard]] Result<Picture> decode_png(std::span<const std::uint8_t> file,
                                         const PictureLimits& limits);
[[nodiscard]] Result<PictureSize> read_png_size(std::span<const std::uint8_t> file,
                                                const PictureLimits& limits);

/// Writes an 8-bit RGB PNG without a time stamp: the same picture gives the same bytes.
///
/// errors: Fault::kBug when rgb is not width * height * 3 values
[[nodiscard]] std::vector<std::uint8_t> write_png(const Picture& picture);

}  // namespace tributary::data
