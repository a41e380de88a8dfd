#include "data/decode/decode_picture.h"

#include <algorithm>

#include "data/decode/jpeg_file.h"
#include "data/decode/png_file.h"

namespace tributary::data {
namespace {

Refusal unknown_format(std::span<const std::uint8_t> file) {
  if (file.empty()) return {"unknown_format", "image file is empty"};
  const std::string first(reinterpret_cast<const char*>(file.data()),
                          std::min<std::size_t>(file.size(), 8));
  return {"unknown_format", str("file begins with ", escaped(first), ", neither JPEG nor PNG")};
}

}  // namespace

std::optional<Refusal> refuse_size(PictureSize size, const PictureLimits& limits) {
  const auto [height, width] = size;
  const std::string found = str("width x height = ", width, " x ", height);
  if (width < 1 || height < 1) return Refusal{"empty_picture", found + ", at least 1 x 1"};
  if (width > limits.most_side || height > limits.most_side)
    return Refusal{"too_large", str(found, ", limit ", limits.most_side, " pixels a side")};
  if (width * height > limits.most_pixels)
    return Refusal{"too_large", str(found, ", limit ", limits.most_pixels, " pixels")};
  if (width * height * 4 > limits.most_decoded.count)
    return Refusal{"too_large", str(found, ", limit ", limits.most_decoded, " decoded")};
  if (std::max(width, height) > limits.most_aspect * std::min(width, height))
    return Refusal{"bad_aspect", str(found, ", limit ", limits.most_aspect, " : 1")};
  return std::nullopt;
}

Result<Picture> decode_picture(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  if (is_jpeg(file)) return decode_jpeg(file, limits);
  if (is_png(file)) return decode_png(file, limits);
  return unknown_format(file);
}

Result<PictureSize> read_picture_size(std::span<const std::uint8_t> file,
                                      const PictureLimits& limits) {
  if (is_jpeg(file)) return read_jpeg_size(file, limits);
  if (is_png(file)) return read_png_size(file, limits);
  return unknown_format(file);
}

}  // namespace tributary::data
