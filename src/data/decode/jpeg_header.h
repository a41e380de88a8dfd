#pragma once

#include <cstdint>
#include <span>

#include "core/result.h"

namespace tributary::data {

/// What the markers before the first scan say about the picture.
struct JpegHeader {
  int width = 0;  // as stored, before orientation
  int height = 0;
  int orientation = 1;  // EXIF, 1..8

  /// Whether width and height change places when the picture is shown upright.
  [[nodiscard]] bool is_turned() const { return orientation >= 5; }
};

/// Walks the markers up to the frame header, each step bounded by the file.
///
/// errors: Refusal `header_cut` when the file ends first, `jpeg_damaged` when a marker is wrong
/// source: ITU-T T.81 annex B; EXIF 2.3 section 4.6 (TIFF tag 0x0112)
[[nodiscard]] Result<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> file);

}  // namespace tributary::data
