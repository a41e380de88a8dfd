#include "data/decode/jpeg_file.h"

#include <turbojpeg.h>
#include <utility>

#include "core/handle.h"
#include "data/decode/jpeg_header.h"

namespace tributary::data {
namespace {

constexpr int kFlags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS | TJFLAG_ACCURATEDCT;

void close_codec(tjhandle codec) { tjDestroy(codec); }
void free_buffer(unsigned char* buffer) { tjFree(buffer); }
using Codec = Handle<tjhandle, nullptr, close_codec>;
using Buffer = Handle<unsigned char*, nullptr, free_buffer>;

Refusal refuse(const Codec& codec) {
  const bool warning = tjGetErrorCode(codec.get()) == TJERR_WARNING;
  return {warning ? "jpeg_warning" : "jpeg_damaged",
          str("JPEG: ", escaped(tjGetErrorStr2(codec.get())))};
}

std::size_t area(const Picture& picture) {
  return static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height);
}

/// a * b / 255, rounded.
int scale_by(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// Turns inverted inks [pixels, 4] into rgb [pixels, 3], by Pillow's integer rule.
void convert_inks(const std::vector<std::uint8_t>& inks, std::vector<std::uint8_t>& rgb) {
  for (std::size_t pixel = 0; pixel * 4 < inks.size(); ++pixel) {
    const int light = inks[pixel * 4 + 3];
    for (std::size_t channel = 0; channel < 3; ++channel)
      rgb[pixel * 3 + channel] =
          static_cast<std::uint8_t>(light - scale_by(255 - inks[pixel * 4 + channel], light));
  }
}

/// Where the upright pixel (x, y) is stored: EXIF 2.3, tag 0x0112.
std::pair<int, int> stored_at(int orientation, int x, int y, int width, int height) {
  const int right = width - 1;
  const int bottom = height - 1;
  switch (orientation) {
    case 2:
      return {right - x, y};
    case 3:
      return {right - x, bottom - y};
    case 4:
      return {x, bottom - y};
    case 5:
      return {y, x};
    case 6:
      return {y, bottom - x};
    case 7:
      return {right - y, bottom - x};
    case 8:
      return {right - y, x};
    default:
      return {x, y};
  }
}

Picture make_upright(Picture stored, const JpegHeader& header) {
  if (header.orientation == 1) return stored;
  Picture upright;
  upright.width = header.is_turned() ? stored.height : stored.width;
  upright.height = header.is_turned() ? stored.width : stored.height;
  upright.rgb.resize(stored.rgb.size());
  std::uint8_t* to = upright.rgb.data();
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x, to += 3) {
      const auto [column, row] = stored_at(header.orientation, x, y, stored.width, stored.height);
      const std::size_t from =
          3 * (static_cast<std::size_t>(row) * static_cast<std::size_t>(stored.width) +
               static_cast<std::size_t>(column));
      for (std::size_t channel = 0; channel < 3; ++channel)
        to[channel] = stored.rgb[from + channel];
    }
  }
  return upright;
}

PictureSize size_upright(const JpegHeader& header) {
  if (header.is_turned()) return {.height = header.width, .width = header.height};
  return {.height = header.height, .width = header.width};
}

}  // namespace

bool is_jpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

Result<PictureSize> read_jpeg_size(std::span<const std::uint8_t> file,
                                   const PictureLimits& limits) {
  const Result<JpegHeader> header = read_jpeg_header(file);
  if (!header) return header.refusal();
  const PictureSize size = size_upright(header.value());
  if (auto refusal = refuse_size(size, limits)) return *refusal;
  return size;
}

Result<Picture> decode_jpeg(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  if (const auto size = read_jpeg_size(file, limits); !size) return size.refusal();
  const JpegHeader header = read_jpeg_header(file).value();
  const Codec codec(tjInitDecompress());
  if (!codec) TRIB_RAISE(Fault::kResource, .what = "data: libjpeg-turbo did not start");
  Picture picture;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(codec.get(), file.data(), file.size(), &picture.width, &picture.height,
                          &subsampling, &colours) != 0)
    return refuse(codec);
  if (picture.width != header.width || picture.height != header.height)
    return Refusal{"length_changed", str("JPEG: header says ", header.width, " x ", header.height,
                                         ", decoder ", picture.width, " x ", picture.height)};
  const bool inked = colours == TJCS_CMYK || colours == TJCS_YCCK;
  picture.rgb.resize(area(picture) * 3);
  std::vector<std::uint8_t> inks(inked ? area(picture) * 4 : 0);
  if (tjDecompress2(codec.get(), file.data(), file.size(), inked ? inks.data() : picture.rgb.data(),
                    picture.width, /*pitch=*/0, picture.height, inked ? TJPF_CMYK : TJPF_RGB,
                    kFlags) != 0)
    return refuse(codec);
  if (inked) convert_inks(inks, picture.rgb);
  return make_upright(std::move(picture), header);
}

std::vector<std::uint8_t> write_jpeg(const Picture& picture, int quality) {
  TRIB_CHECK(picture.width > 0 && picture.rgb.size() == area(picture) * 3,
             .what = "data: picture does not have width * height * 3 values",
             .found = str(picture.width, " x ", picture.height, ", ", picture.rgb.size()));
  const Codec codec(tjInitCompress());
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int failed =
      tjCompress2(codec.get(), picture.rgb.data(), picture.width, /*pitch=*/0, picture.height,
                  TJPF_RGB, &bytes, &size, TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
  const Buffer owned(bytes);
  TRIB_CHECK(failed == 0, .what = "data: JPEG was not written",
             .found = tjGetErrorStr2(codec.get()));
  return {bytes, bytes + size};
}

}  // namespace tributary::data
