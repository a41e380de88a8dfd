#include "data/decode/decode_picture.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "data/decode/bmp_file.h"
#include "data/decode/gif_file.h"
#include "data/decode/jpeg_file.h"
#include "data/decode/png_file.h"
#include "data/decode/webp_file.h"

namespace tributary::data {
namespace {

constexpr const char* kRead = "JPEG, PNG, WebP, GIF and BMP";

struct OtherFormat {
  std::string_view name;
  std::string_view mark;
  std::size_t place = 0;  // offset of the mark in the file
};
constexpr std::array<OtherFormat, 7> kOtherFormats{{{"TIFF", {"II*\0", 4}},
                                                    {"TIFF", {"MM\0*", 4}},
                                                    {"AVIF", "ftypavif", 4},
                                                    {"HEIC", "ftypheic", 4},
                                                    {"JPEG 2000", {"\0\0\0\x0cjP", 6}},
                                                    {"PDF", "%PDF"},
                                                    {"SVG", "<svg"}}};

Refusal unknown_format(std::span<const std::uint8_t> file) {
  if (file.empty()) return {"unknown_format", "image file is empty"};
  const std::string first(reinterpret_cast<const char*>(file.data()),
                          std::min<std::size_t>(file.size(), 16));
  for (const OtherFormat& format : kOtherFormats)
    if (first.size() > format.place && first.substr(format.place).starts_with(format.mark))
      return {"unknown_format", str("file is ", format.name, ", and ", kRead,
                                    " are read; write it as PNG "
                                    "(`mogrify -format png FILE` of ImageMagick) and name that")};
  return {"unknown_format",
          str("file begins with ", escaped(first.substr(0, 8)), "; ", kRead, " are read")};
}

}  // namespace

Result<Picture> decode_picture(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  if (is_jpeg(file)) return decode_jpeg(file, limits);
  if (is_png(file)) return decode_png(file, limits);
  if (is_webp(file)) return decode_webp(file, limits);
  if (is_gif(file)) return decode_gif(file, limits);
  if (is_bmp(file)) return decode_bmp(file, limits);
  return unknown_format(file);
}

Result<PictureSize> read_picture_size(std::span<const std::uint8_t> file,
                                      const PictureLimits& limits) {
  if (is_jpeg(file)) return read_jpeg_size(file, limits);
  if (is_png(file)) return read_png_size(file, limits);
  if (is_webp(file)) return read_webp_size(file, limits);
  if (is_gif(file)) return read_gif_size(file, limits);
  if (is_bmp(file)) return read_bmp_size(file, limits);
  return unknown_format(file);
}

}  // namespace tributary::data
