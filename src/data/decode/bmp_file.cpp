#include "data/decode/bmp_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <optional>

namespace tributary::data {
namespace {

constexpr std::size_t kFileHeaderBytes = 14;
constexpr std::uint32_t kCoreHeaderBytes = 12;  // OS/2: 16-bit sizes, palette of 3 bytes a colour
constexpr std::uint32_t kInfoHeaderBytes = 40;
constexpr std::uint32_t kMaxHeaderBytes = 124;
constexpr std::uint32_t kPlain = 0;   // compression
constexpr std::uint32_t kMasked = 3;  // likewise: masks say where the colours are

/// Where one colour of a pixel lies.
struct Mask {
  int shift = 0;
  int bits = 0;
};

struct BmpHeader {
  PictureSize size;
  bool is_top_down = false;
  int bits = 0;                 // a pixel
  std::size_t pixels = 0;       // offset in the file
  std::array<Mask, 3> masks{};  // red, green, blue; of 16 and 32 bits
  std::size_t palette = 0;      // offset in the file
  std::size_t colours = 0;      // in the palette
  std::size_t colour_bytes = 4;
};

std::uint32_t number(std::span<const std::uint8_t> file, std::size_t at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | file[at + i];
  return value;
}

Refusal bmp_unsupported(const std::string& what) {
  return {"bmp_unsupported", str("BMP: ", what,
                                 " is not read; write it as PNG (`mogrify -format png FILE` of "
                                 "ImageMagick) and name that")};
}
Refusal bmp_damaged(const std::string& reason) { return {"bmp_damaged", "BMP: " + reason}; }

/// A mask of neighbouring bits; null when it is none, or of a width that is not read.
std::optional<Mask> read_mask(std::uint32_t mask, int bits) {
  if (mask == 0) return std::nullopt;
  const Mask found{.shift = std::countr_zero(mask), .bits = std::popcount(mask)};
  const bool is_whole = (mask >> found.shift) + 1 == std::uint32_t{1} << found.bits;
  const bool is_read = bits == 16 ? found.bits == 5 || found.bits == 6 : found.bits == 8;
  if (!is_whole || !is_read) return std::nullopt;
  return found;
}

/// Reads where red, green and blue lie in pixels of 16 and 32 bits.
std::optional<Refusal> read_masks(std::span<const std::uint8_t> file, std::uint32_t compression,
                                  BmpHeader& header) {
  constexpr std::array<std::uint32_t, 3> kUsual16{0x7c00, 0x03e0, 0x001f};
  constexpr std::array<std::uint32_t, 3> kUsual32{0x00ff0000, 0x0000ff00, 0x000000ff};
  const std::size_t at = kFileHeaderBytes + kInfoHeaderBytes;
  if (compression == kMasked && file.size() < at + 12)
    return Refusal{"header_cut", str("BMP file ends after ", file.size(), " bytes")};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::uint32_t bits = compression == kMasked ? number(file, at + 4 * i, 4)
                               : header.bits == 16    ? kUsual16[i]
                                                      : kUsual32[i];
    const std::optional<Mask> mask = read_mask(bits, header.bits);
    if (!mask) return bmp_unsupported(str("a colour mask of ", bits));
    header.masks[i] = *mask;
  }
  return std::nullopt;
}

Result<BmpHeader> read_bmp_header(std::span<const std::uint8_t> file) {
  const auto cut = [&] {
    return Refusal{"header_cut", str("BMP file ends after ", file.size(), " bytes")};
  };
  if (file.size() < kFileHeaderBytes + kCoreHeaderBytes) return cut();
  BmpHeader header;
  header.pixels = number(file, 10, 4);
  const std::uint32_t bytes = number(file, 14, 4);
  std::uint32_t compression = kPlain;
  std::uint32_t colours = 0;
  if (bytes == kCoreHeaderBytes) {
    header.size = {.height = number(file, 20, 2), .width = number(file, 18, 2)};
    header.bits = static_cast<int>(number(file, 24, 2));
    header.colour_bytes = 3;
  } else if (bytes >= kInfoHeaderBytes && bytes <= kMaxHeaderBytes) {
    if (file.size() < kFileHeaderBytes + kInfoHeaderBytes) return cut();
    const auto height = std::int64_t{static_cast<std::int32_t>(number(file, 22, 4))};
    const auto width = std::int64_t{static_cast<std::int32_t>(number(file, 18, 4))};
    header.size = {.height = std::abs(height), .width = width};
    header.is_top_down = height < 0;
    header.bits = static_cast<int>(number(file, 28, 2));
    compression = number(file, 30, 4);
    colours = number(file, 46, 4);
  } else {
    return bmp_damaged(str("header of ", bytes, " bytes"));
  }
  const bool is_masked = compression == kMasked && (header.bits == 16 || header.bits == 32);
  if (compression != kPlain && !is_masked)
    return bmp_unsupported(str("compression ", compression, " at ", header.bits, " bits"));
  if (header.bits == 16 || header.bits == 32) {
    if (auto refusal = read_masks(file, compression, header)) return *refusal;
  } else if (header.bits == 1 || header.bits == 4 || header.bits == 8) {
    const std::size_t all = std::size_t{1} << header.bits;
    header.palette = kFileHeaderBytes + bytes;
    header.colours = colours == 0 ? all : std::min<std::size_t>(colours, all);
  } else if (header.bits != 24) {
    return bmp_damaged(str(header.bits, " bits a pixel"));
  }
  return header;
}

/// A value of `bits` bits, spread over 0 to 255.
std::uint8_t widen(std::uint32_t value, int bits) {
  const std::uint32_t max = (std::uint32_t{1} << bits) - 1;
  return static_cast<std::uint8_t>((value & max) * 255 / max);
}

/// Turns one stored row into rgb.
void convert_row(std::span<const std::uint8_t> file, std::size_t row, const BmpHeader& header,
                 std::uint8_t* rgb) {
  const auto bits = static_cast<std::size_t>(header.bits);
  for (std::size_t x = 0; x < static_cast<std::size_t>(header.size.width); ++x, rgb += 3) {
    if (bits == 24) {
      for (std::size_t i = 0; i < 3; ++i) rgb[i] = file[row + 3 * x + 2 - i];
    } else if (bits > 8) {
      const std::uint32_t pixel = number(file, row + x * bits / 8, bits / 8);
      for (std::size_t i = 0; i < 3; ++i)
        rgb[i] = widen(pixel >> header.masks[i].shift, header.masks[i].bits);
    } else {
      const std::uint32_t byte = file[row + x * bits / 8];
      const std::size_t index = byte >> (8 - bits - x * bits % 8) & ((1u << bits) - 1);
      for (std::size_t i = 0; i < 3; ++i)
        rgb[i] = index < header.colours ? file[header.palette + index * header.colour_bytes + 2 - i]
                                        : std::uint8_t{0};
    }
  }
}

}  // namespace

bool is_bmp(std::span<const std::uint8_t> file) {
  return file.size() >= 2 && file[0] == 'B' && file[1] == 'M';
}

Result<PictureSize> read_bmp_size(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  const Result<BmpHeader> header = read_bmp_header(file);
  if (!header) return header.refusal();
  if (auto refusal = refuse_size(header.value().size, limits)) return *refusal;
  return header.value().size;
}

Result<Picture> decode_bmp(std::span<const std::uint8_t> file, const PictureLimits& limits) {
  const Result<PictureSize> size = read_bmp_size(file, limits);
  if (!size) return size.refusal();
  const BmpHeader header = read_bmp_header(file).value();
  const auto width = static_cast<std::size_t>(size.value().width);
  const auto height = static_cast<std::size_t>(size.value().height);
  const std::size_t stride = (width * static_cast<std::size_t>(header.bits) + 31) / 32 * 4;
  if (header.pixels > file.size() || height * stride > file.size() - header.pixels ||
      header.palette + header.colours * header.colour_bytes > file.size())
    return bmp_damaged(
        str("file of ", file.size(), " bytes ends before ", width, " x ", height, " pixels do"));
  Picture picture{.width = static_cast<int>(width), .height = static_cast<int>(height), .rgb = {}};
  picture.rgb.resize(width * height * 3);
  for (std::size_t y = 0; y < height; ++y) {
    const std::size_t stored = header.is_top_down ? y : height - 1 - y;
    convert_row(file, header.pixels + stored * stride, header, picture.rgb.data() + y * width * 3);
  }
  return picture;
}

}  // namespace tributary::data
