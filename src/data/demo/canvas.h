#pragma once

#include <cstdint>
#include <vector>

#include "core/handle.h"
#include "data/sample.h"

using CairoSurface = struct _cairo_surface;
using CairoContext = struct _cairo;

namespace tributary::data {

/// A place in a drawing, in 1/256 of a pixel. The rasteriser works on the same grid, so no
/// coordinate depends on how a machine rounds.
struct Place {
  std::int64_t x = 0;
  std::int64_t y = 0;

  friend bool operator==(const Place&, const Place&) = default;
};
inline constexpr std::int64_t kPixel = 256;

/// Closed polygons; they leave a hole where they overlap in opposite directions.
using Outline = std::vector<std::vector<Place>>;

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

/// A picture on which outlines are filled with cairo, edges smoothed.
class Canvas {
 public:
  Canvas(int width, int height, Colour background);

  void fill(const Outline& outline, Colour colour);
  /// units: whole pixels
  void fill_box(int left, int top, int width, int height, Colour colour);
  [[nodiscard]] Picture picture() const;

 private:
  static void close_surface(CairoSurface* surface);
  static void close_context(CairoContext* context);

  int width_;
  int height_;
  Handle<CairoSurface*, nullptr, &Canvas::close_surface> surface_;
  Handle<CairoContext*, nullptr, &Canvas::close_context> context_;
};

}  // namespace tributary::data
