#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tributary::ops {

/// Resizes an 8-bit picture with the antialiased bicubic kernel (a = -0.5), each of the two passes
/// rounded to 8 bits: ATen's own, so that pixels equal those of transformers to the last bit.
///
/// shape:  rgb [height, width, 3] -> returns [new_height, new_width, 3]
/// errors: Fault::kInput when a side is below 1 or `rgb` does not have height * width * 3 values
/// cost:   O(pixels * kernel width), in the calling thread; safe to call from many threads
/// source: docs/theory/numerics.md, "Resizing pixels"
[[nodiscard]] std::vector<std::uint8_t> resize_bicubic(std::span<const std::uint8_t> rgb,
                                                       std::int64_t height, std::int64_t width,
                                                       std::int64_t new_height,
                                                       std::int64_t new_width);

}  // namespace tributary::ops
