#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/sample.h"

namespace tributary::data {

/// Finds the orientation in the first directory of an EXIF (TIFF) block; null when it is absent or
/// not a number in 1..8. A block that is cut or wrong has none.
///
/// source: EXIF 2.3 section 4.6, tag 0x0112
[[nodiscard]] std::optional<int> find_orientation(std::span<const std::uint8_t> block);

/// The size of a picture as it is shown. units: orientation 1..8, as EXIF counts
[[nodiscard]] PictureSize size_upright(PictureSize stored, int orientation);
[[nodiscard]] Picture make_upright(Picture stored, int orientation);

}  // namespace tributary::data
