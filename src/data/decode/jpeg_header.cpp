#include "data/decode/jpeg_header.h"

#include <cstring>
#include <optional>

namespace tributary::data {
namespace {

/// The TIFF block of an APP1 segment, in either byte order; a read outside it gives null.
class TiffBlock {
 public:
  explicit TiffBlock(std::span<const std::uint8_t> bytes)
      : bytes_(bytes), little_(bytes.size() >= 2 && bytes[0] == 'I') {}

  [[nodiscard]] std::optional<std::uint32_t> number(std::size_t at, std::size_t width) const {
    if (at > bytes_.size() || width > bytes_.size() - at) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i)
      value = value << 8 | bytes_[at + (little_ ? width - 1 - i : i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool little_;
};

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;

/// Finds the orientation in the first directory; null when absent or not a number in 1..8.
std::optional<int> find_orientation(std::span<const std::uint8_t> segment) {
  if (segment.size() < 14 || std::memcmp(segment.data(), "Exif\0\0", 6) != 0) return std::nullopt;
  const TiffBlock tiff(segment.subspan(6));
  if (tiff.number(2, 2) != 42u) return std::nullopt;
  const std::size_t directory = tiff.number(4, 4).value_or(0);
  const std::uint32_t entries = tiff.number(directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    const auto tag = tiff.number(entry, 2);
    if (!tag) return std::nullopt;  // the directory runs out of the segment
    if (*tag != kOrientationTag || tiff.number(entry + 2, 2) != kShort) continue;
    const std::uint32_t value = tiff.number(entry + 8, 2).value_or(0);
    if (value >= 1 && value <= 8) return static_cast<int>(value);
    return std::nullopt;
  }
  return std::nullopt;
}

bool is_frame_header(int marker) {  // SOF0..SOF15 without DHT, JPG, DAC
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}
bool stands_alone(int marker) { return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8); }

Refusal header_cut(std::size_t bytes) {
  return {"header_cut", str("JPEG file ends inside its header, after ", bytes, " bytes")};
}

}  // namespace

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
      if (const auto orientation = find_orientation(body)) {
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

}  // namespace tributary::data
