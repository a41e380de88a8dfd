#include "data/decode/picture_limits.h"

#include <algorithm>
#include <string>

#include "core/text.h"

namespace tributary::data {
namespace {

/// The fix for a picture that is larger than any key allows.
std::string scale_down(const std::string& geometry) {
  return str("; no key raises it: scale the file down, `mogrify -resize '", geometry,
             ">' FILE` of ImageMagick");
}

}  // namespace

std::optional<Refusal> refuse_size(PictureSize size, const PictureLimits& limits) {
  const auto [height, width] = size;
  const std::string found = str("width x height = ", width, " x ", height);
  if (width < 1 || height < 1) return Refusal{"empty_picture", found + ", at least 1 x 1"};
  if (width > limits.max_side || height > limits.max_side)
    return Refusal{"too_large", str(found, ", limit ", limits.max_side, " pixels a side",
                                    scale_down(str(limits.max_side, "x", limits.max_side)))};
  if (width * height > limits.max_pixels)
    return Refusal{"too_large", str(found, ", limit ", limits.max_pixels, " pixels",
                                    scale_down(str(limits.max_pixels, "@")))};
  if (width * height * 4 > limits.max_decoded.count)
    return Refusal{"too_large", str(found, ", limit ", limits.max_decoded, " decoded")};
  if (std::max(width, height) > limits.max_aspect * std::min(width, height))
    return Refusal{"bad_aspect", str(found, ", limit ", limits.max_aspect, " : 1; crop the file")};
  return std::nullopt;
}

}  // namespace tributary::data
