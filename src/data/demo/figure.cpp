#include "data/demo/figure.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "core/text.h"

namespace tributary::data {
namespace {

constexpr int kCell = kSmallSide / 2;  // pixels

constexpr std::array<Colour, kColourNames.size()> kColours{
    Colour{215, 30, 35}, Colour{240, 115, 10}, Colour{240, 205, 10}, Colour{40, 160, 60},
    Colour{45, 85, 215}, Colour{135, 45, 165}, Colour{35, 35, 35},   Colour{125, 75, 45}};

/// `count` corners whose radii alternate, the first at `start` turns clockwise from the top.
Outline corners(Place centre, std::int64_t radius, int count, double start,
                const std::vector<double>& reach) {
  std::vector<Place> polygon;
  for (int i = 0; i < count; ++i) {
    const double angle = 2 * std::numbers::pi * (start + static_cast<double>(i) / count);
    const double length = static_cast<double>(radius) * reach[i % reach.size()];
    // Rounding to 1/256 pixel hides the differences between maths libraries.
    polygon.push_back({centre.x + std::lround(length * std::sin(angle)),
                       centre.y - std::lround(length * std::cos(angle))});
  }
  return {polygon};
}

Outline cross(Place centre, std::int64_t radius) {
  const std::int64_t arm = radius * 15 / 16;
  const std::int64_t half = radius * 3 / 8;
  std::vector<Place> polygon;
  for (const auto& [x, y] : {std::pair{-half, -arm},
                             {half, -arm},
                             {half, -half},
                             {arm, -half},
                             {arm, half},
                             {half, half},
                             {half, arm},
                             {-half, arm},
                             {-half, half},
                             {-arm, half},
                             {-arm, -half},
                             {-half, -half}})
    polygon.push_back({centre.x + x, centre.y + y});
  return {polygon};
}

}  // namespace

Figure any_figure(RandomStream& random) {
  return {.shape = static_cast<int>(random.below(kShapeNames.size())),
          .colour = static_cast<int>(random.below(kColourNames.size())),
          .digit = static_cast<int>(random.below(10))};
}

std::string describe(const Figure& figure) {
  return str(kColourNames[figure.colour], " ", kShapeNames[figure.shape], " ", figure.digit);
}

Outline shape_outline(int shape, Place centre, std::int64_t radius) {
  switch (shape) {
    case 0:
      return corners(centre, radius * 15 / 16, 32, 0, {1});
    case 1:
      return corners(centre, radius * 9 / 8, 4, 0.125, {1});
    case 2:
      return corners({centre.x, centre.y + radius / 8}, radius * 9 / 8, 3, 0, {1});
    case 3:
      return corners(centre, radius * 9 / 8, 10, 0, {1, 0.5});
    case 4:
      return cross(centre, radius);
    default:
      return corners(centre, radius, 4, 0, {1});
  }
}

Colour shade_of(int colour, RandomStream& random) {
  const auto move = [&](std::uint8_t value) {
    return static_cast<std::uint8_t>(
        std::clamp<std::int64_t>(value + random.between(-10, 10), 0, 255));
  };
  const Colour middle = kColours[colour];
  const std::uint8_t red = move(middle.red);
  const std::uint8_t green = move(middle.green);
  return {red, green, move(middle.blue)};
}

Colour paper(RandomStream& random) {
  const auto light = [&] { return static_cast<std::uint8_t>(random.between(225, 255)); };
  const std::uint8_t red = light();
  const std::uint8_t green = light();
  return {red, green, light()};
}

FigurePlaces any_places(RandomStream& random) {
  const int shape_cell = static_cast<int>(random.below(4));
  const int step = static_cast<int>(random.between(1, 3));
  return {.shape_cell = shape_cell, .digit_cell = (shape_cell + step) % 4};
}

void draw_figure(Canvas& canvas, const Glyphs& glyphs, const Figure& figure, FigurePlaces places,
                 RandomStream& random) {
  const auto corner = [](int cell) {
    return Place{cell % 2 * kCell * kPixel, cell / 2 * kCell * kPixel};
  };
  const auto shift = [&] { return random.between(-2 * kPixel, 2 * kPixel); };
  Place shape = corner(places.shape_cell);
  shape.x += kCell * kPixel / 2 + shift();
  shape.y += kCell * kPixel / 2 + shift();
  const std::int64_t radius = random.between(11 * kPixel, 13 * kPixel);
  canvas.fill(shape_outline(figure.shape, shape, radius), shade_of(figure.colour, random));
  Place digit = corner(places.digit_cell);
  digit.x += kGlyphAdvance * kPixel / 2 + shift();
  digit.y += 22 * kPixel + shift();
  glyphs.draw(canvas, str(figure.digit), digit, kGlyphAdvance, kInk);
}

}  // namespace tributary::data
