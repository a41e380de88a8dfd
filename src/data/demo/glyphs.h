#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/demo/canvas.h"

namespace tributary::data {

/// The printable ASCII glyphs of one monospaced font, as unhinted outlines in font units.
class Glyphs {
 public:
  /// errors: Fault::kResource when the file is missing or no font, or when an outline differs from
  ///         that of the release by which the demo is defined. The digest covers outlines, because
  ///         distributions build different files from the same drawings
  explicit Glyphs(const std::string& file);

  /// Draws one line of ASCII text.
  ///
  /// units: `left` and `baseline` in 1/256 pixel, `advance` in whole pixels a character; it sets
  ///        the size
  void draw(Canvas& canvas, std::string_view text, Place left_of_baseline, int advance,
            Colour colour) const;

  [[nodiscard]] std::uint64_t digest() const;

 private:
  std::int64_t advance_ = 0;           // font units
  std::array<Outline, 128> outlines_;  // font units, y upwards, curves cut into lines
};

/// Where Debian and Ubuntu keep the font of the demo (package fonts-dejavu-core).
inline constexpr std::string_view kDemoFont =
    "/usr/share/fonts/truetype/dejavu/DejaVuSansMono-Bold.ttf";

}  // namespace tributary::data
