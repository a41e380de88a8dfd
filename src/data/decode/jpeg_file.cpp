#include "data/decode/jpeg_file.h"

#include <cstring>
#include <optional>
#include <turbojpeg.h>
#include <utility>

#include "core/handle.h"
#include "data/decode/orientation.h"

namespace tributary::data {
namespace {

/// What the markers before the first scan say about the picture.
struct JpegHeader {
  int width = 0;  // as stored, before orientation
  int height = 0;
  int orientation = 1;  // EXIF, 1..8
};

/// The orientation in an APP1 segment; null when it holds none.
std::optional<int> orientation_of(std::span<const std::uint8_t> segment) {
  if (segment.size() < 6 || std::memcmp(segment.data(), "Exif\0\0", 6) != 0) return std::nullopt;
  return find_orientation(segment.subspan(6));
}

bool is_frame_header(int marker) {  // SOF0..SOF15 without DHT, JPG, DAC
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}
bool stands_alone(int marker) { return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8); }

Refusal header_cut(std::size_t bytes) {
  return {"header_cut", str("JPEG file ends inside its header, after ", bytes, " bytes")};
}

/// Walks the markers up to the frame header, each step bounded by the file.
///
/// errors: Refusal `header_cut` when the file ends first, `jpeg_damaged` when a marker is wrong
/// source: ITU-T T.81 annex B; EXIF 2.3 section 4.6 (TIFF tag 0x0112)
Result<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> file) {
  JpegHeader header;
  bool has_orientation = false;
  std::size_t at = 2;  // after SOI
  for (;;) {
    if (at + 4 > file.size()) return header_cut(file.size());
    if (file[at] != 0xff) {
      return Refusal{"jpeg_damaged", str("JPEG: no marker at byte ", at)};
    }
    const int marker = file[at + 1];
    if (marker == 0xff || stands_alone(marker)) {  // fill byte, or a marker without a body
      at += marker == 0xff ? 1 : 2;
      continue;
    }
    if (marker == 0xd9 || marker == 0xda)
      return Refusal{"jpeg_damaged", str("JPEG: scan or end before a frame header, byte ", at)};
    const std::size_t length = static_cast<std::size_t>(file[at + 2] << 8 | file[at + 3]);
    if (length < 2) return Refusal{"jpeg_damaged", str("JPEG: marker length 0 at byte ", at)};
    if (length > file.size() - at - 2) return header_cut(file.size());
    const auto body = file.subspan(at + 4, length - 2);
    if (marker == 0xe1 && !has_orientation) {
      if (const auto orientation = orientation_of(body)) {
        header.orientation = *orientation;
        has_orientation = true;
      }
    }
    if (is_frame_header(marker)) {
      if (body.size() < 6) return Refusal{"jpeg_damaged", "JPEG: frame header is too short"};
      header.height = body[1] << 8 | body[2];
      header.width = body[3] << 8 | body[4];
      // The orientation must stand before the frame header, where every camera writes it.
      return header;
    }
    at += 2 + length;
  }
}

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

}  // namespace

bool is_jpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

Result<PictureSize> read_jpeg_size(std::span<const std::uint8_t> file,
                                   const PictureLimits& limits) {
  const Result<JpegHeader> header = read_jpeg_header(file);
  if (!header) return header.refusal();
  const auto& [width, height, orientation] = header.value();
  const PictureSize size = size_upright({.height = height, .width = width}, orientation);
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
  return make_upright(std::move(picture), header.orientation);
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
