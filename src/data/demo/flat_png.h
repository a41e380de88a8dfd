#pragma once

#include <cstdint>
#include <vector>

#include "data/sample.h"

namespace tributary::data {

/// Writes an 8-bit RGB PNG whose bytes depend on the picture alone.
///
/// A general compressor gives other bytes in another version; this one is fixed: no row filter,
/// one deflate block with the fixed code, and repeats of the pixel to the left or of the row above
/// as its only matches. That suits drawings, which are flat.
/// source: RFC 1951 sections 3.2.5 and 3.2.6, RFC 1950, PNG third edition section 5
[[nodiscard]] std::vector<std::uint8_t> write_flat_png(const Picture& picture);

}  // namespace tributary::data
