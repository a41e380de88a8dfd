#include "data/demo/canvas.h"

#include <cairo.h>

#include "core/error.h"

namespace tributary::data {
namespace {

double pixels(std::int64_t place) { return static_cast<double>(place) / kPixel; }

}  // namespace

void Canvas::close_surface(CairoSurface* surface) { cairo_surface_destroy(surface); }
void Canvas::close_context(CairoContext* context) { cairo_destroy(context); }

Canvas::Canvas(int width, int height, Colour background)
    : width_(width),
      height_(height),
      surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)),
      context_(cairo_create(surface_.get())) {
  cairo_set_antialias(context_.get(), CAIRO_ANTIALIAS_GOOD);
  cairo_set_fill_rule(context_.get(), CAIRO_FILL_RULE_WINDING);
  fill_box(0, 0, width, height, background);
}

void Canvas::fill(const Outline& outline, Colour colour) {
  cairo_t* to = context_.get();
  cairo_new_path(to);
  for (const auto& polygon : outline) {
    for (const Place& place : polygon) cairo_line_to(to, pixels(place.x), pixels(place.y));
    cairo_close_path(to);
  }
  cairo_set_source_rgb(to, colour.red / 255.0, colour.green / 255.0, colour.blue / 255.0);
  cairo_fill(to);
}

void Canvas::fill_box(int left, int top, int width, int height, Colour colour) {
  const std::int64_t x = left * kPixel;
  const std::int64_t y = top * kPixel;
  const std::int64_t right = x + width * kPixel;
  const std::int64_t bottom = y + height * kPixel;
  fill({{{x, y}, {right, y}, {right, bottom}, {x, bottom}}}, colour);
}

Picture Canvas::picture() const {
  const cairo_status_t status = cairo_status(context_.get());
  TRIB_CHECK(status == CAIRO_STATUS_SUCCESS, .what = "data: cairo could not draw a demo picture",
             .found = cairo_status_to_string(status));
  cairo_surface_flush(surface_.get());
  const unsigned char* row = cairo_image_surface_get_data(surface_.get());
  const int stride = cairo_image_surface_get_stride(surface_.get());
  Picture picture{.width = width_, .height = height_, .rgb = {}};
  picture.rgb.reserve(static_cast<std::size_t>(width_) * height_ * 3);
  for (int y = 0; y < height_; ++y, row += stride)
    for (int x = 0; x < width_; ++x) {
      const auto pixel = reinterpret_cast<const std::uint32_t*>(row)[x];  // 0x00RRGGBB
      for (const int shift : {16, 8, 0})
        picture.rgb.push_back(static_cast<std::uint8_t>(pixel >> shift));
    }
  return picture;
}

}  // namespace tributary::data
