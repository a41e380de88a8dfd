#pragma once

#include <array>
#include <string_view>

#include "core/random.h"
#include "data/demo/canvas.h"
#include "data/demo/glyphs.h"

namespace tributary::data {

inline constexpr std::array<std::string_view, 6> kShapeNames{"circle", "square", "triangle",
                                                             "star",   "cross",  "diamond"};
inline constexpr std::array<std::string_view, 8> kColourNames{"red",  "orange", "yellow", "green",
                                                              "blue", "purple", "black",  "brown"};

/// Size [pixels per character] and colour of all text in the drawings.
inline constexpr int kGlyphAdvance = 14;
inline constexpr Colour kInk{25, 25, 30};

/// The content of a small picture: a shape of one colour, and a digit beside it.
struct Figure {
  int shape = 0;   // index in kShapeNames
  int colour = 0;  // index in kColourNames
  int digit = 0;

  friend bool operator==(const Figure&, const Figure&) = default;
};

[[nodiscard]] Figure any_figure(RandomStream& random);

/// The figure in words, for comparing contents: "red circle 7".
[[nodiscard]] std::string describe(const Figure& figure);

/// units: 1/256 pixel; `radius` reaches from the centre to the farthest corner
[[nodiscard]] Outline shape_outline(int shape, Place centre, std::int64_t radius);

/// The named colour with a little noise, so that hardly two pictures have the same.
[[nodiscard]] Colour shade_of(int colour, RandomStream& random);

/// A light colour, near white.
[[nodiscard]] Colour paper(RandomStream& random);

/// A square picture of four cells: the figure's shape lies in one of them, its digit in another.
inline constexpr int kSmallSide = 56;  // pixels

/// The cells of a figure.
struct FigurePlaces {
  int shape_cell = 0;  // row by row
  int digit_cell = 1;
};

[[nodiscard]] FigurePlaces any_places(RandomStream& random);

void draw_figure(Canvas& canvas, const Glyphs& glyphs, const Figure& figure, FigurePlaces places,
                 RandomStream& random);

}  // namespace tributary::data
