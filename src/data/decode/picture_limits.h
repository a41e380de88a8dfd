#pragma once

#include <cstdint>
#include <optional>

#include "core/result.h"
#include "core/units.h"

namespace tributary::data {

/// What a picture may cost; checked on its header, before a pixel is decoded.
struct PictureLimits {
  std::int64_t most_pixels = std::int64_t{64} << 20;
  std::int64_t most_side = 32768;
  std::int64_t most_aspect = 200;  // longer side / shorter side
  Bytes most_decoded = {std::int64_t{512} << 20};
};

/// A picture's size as it is shown: after its EXIF orientation.
struct PictureSize {
  int width = 0;
  int height = 0;

  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};

/// Refuses (`too_large`, `bad_aspect`, `empty_picture`) or accepts the size of a header.
[[nodiscard]] std::optional<Refusal> refuse_size(std::int64_t width, std::int64_t height,
                                                 const PictureLimits& limits);

}  // namespace tributary::data
