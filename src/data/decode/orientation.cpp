#include "data/decode/orientation.h"

#include <utility>

namespace tributary::data {
namespace {

/// A TIFF block, in either byte order; a read outside it gives null.
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

/// Whether width and height change places when the picture is shown upright.
bool is_turned(int orientation) { return orientation >= 5; }

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

}  // namespace

std::optional<int> find_orientation(std::span<const std::uint8_t> block) {
  const TiffBlock tiff(block);
  if (tiff.number(2, 2) != 42u) return std::nullopt;
  const std::size_t directory = tiff.number(4, 4).value_or(0);
  const std::uint32_t entries = tiff.number(directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    const auto tag = tiff.number(entry, 2);
    if (!tag) return std::nullopt;  // the directory runs out of the block
    if (*tag != kOrientationTag || tiff.number(entry + 2, 2) != kShort) continue;
    const std::uint32_t value = tiff.number(entry + 8, 2).value_or(0);
    if (value >= 1 && value <= 8) return static_cast<int>(value);
    return std::nullopt;
  }
  return std::nullopt;
}

PictureSize size_upright(PictureSize stored, int orientation) {
  if (!is_turned(orientation)) return stored;
  return {.height = stored.width, .width = stored.height};
}

Picture make_upright(Picture stored, int orientation) {
  if (orientation == 1) return stored;
  Picture upright;
  upright.width = is_turned(orientation) ? stored.height : stored.width;
  upright.height = is_turned(orientation) ? stored.width : stored.height;
  upright.rgb.resize(stored.rgb.size());
  std::uint8_t* to = upright.rgb.data();
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x, to += 3) {
      const auto [column, row] = stored_at(orientation, x, y, stored.width, stored.height);
      const std::size_t from =
          3 * (static_cast<std::size_t>(row) * static_cast<std::size_t>(stored.width) +
               static_cast<std::size_t>(column));
      for (std::size_t channel = 0; channel < 3; ++channel)
        to[channel] = stored.rgb[from + channel];
    }
  }
  return upright;
}

}  // namespace tributary::data
