#pragma once

#include <cstdint>
#include <span>

#include "core/result.h"
#include "data/decode/picture_limits.h"
#include "data/sample.h"

namespace tributary::data {

/// Decodes a JPEG, PNG, WebP, GIF or BMP file into 8-bit RGB, upright; of several frames the first.
///
/// The first bytes decide the format, never the name. Pixels are those of Pillow's
/// `exif_transpose(image).convert("RGB")`: alpha is dropped (not blended), grey is repeated, a
/// palette is looked up. Differences: 16-bit samples keep their upper 8 bits (Pillow clips 16-bit
/// grey at 255), and an eXIf chunk of a PNG is not applied.
/// errors: Refusal `unknown_format`, `too_large`, `bad_aspect`, `empty_picture`, `jpeg_warning`,
///         `jpeg_damaged`, `png_crc`, `png_damaged`, `webp_damaged`, `gif_damaged`, `bmp_damaged`,
///         `bmp_unsupported`, `length_changed`
[[nodiscard]] Result<Picture> decode_picture(std::span<const std::uint8_t> file,
                                             const PictureLimits& limits = {});

/// Reads only the header, for the size that decode_picture gives; checks the limits too.
///
/// errors: as decode_picture; `header_cut` when `file` is a part that ends inside the header
[[nodiscard]] Result<PictureSize> read_picture_size(std::span<const std::uint8_t> file,
                                                    const PictureLimits& limits = {});

}  // namespace tributary::data
