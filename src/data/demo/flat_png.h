#pragma once

#include <cstdint>
#include <vector>

#include "data/sample.h"

namespace tributary::data {

/// Writes an 8-bit RGB PNG whose bytes depend only on the picture.
///
/// A general compressor may give other bytes in another version. This one is fixed: no row filter,
/// one deflate block with the fixed code, and matches only with the pixel to the left or with the
/// row above. That suits drawings, which have large areas of one colour.
/// source: RFC 1951 sections 3.2.5 and 3.2.6, RFC 1950, PNG third edition section 5
[[nodiscard]] std::vector<std::uint8_t> write_flat_png(const Picture& picture);

}  // namespace tributary::data
