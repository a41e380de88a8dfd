#pragma once

#include <cstdint>
#include <optional>

#include "core/result.h"
#include "core/units.h"
#include "data/sample.h"

namespace tributary::data {

/// Limits of a picture, checked on its header before a pixel is decoded.
struct PictureLimits {
  std::int64_t max_pixels = std::int64_t{64} << 20;
  std::int64_t max_side = 32768;
  std::int64_t max_aspect = 200;  // longer side / shorter side
  Bytes max_decoded = {std::int64_t{512} << 20};
};

/// Refuses a size in a header: `too_large`, `bad_aspect`, `empty_picture`; null when it is fine.
[[nodiscard]] std::optional<Refusal> refuse_size(PictureSize size, const PictureLimits& limits);

}  // namespace tributary::data
