#include <span>

#include "core/text.h"
#include "data/demo/figure.h"
#include "data/demo/goods.h"
#include "data/demo/scene.h"

namespace tributary::data {
namespace {

Scene draw_one_figure(RandomStream& random, const Glyphs& glyphs) {
  const Figure figure = any_figure(random);
  Canvas canvas(kSmallSide, kSmallSide, paper(random));
  draw_figure(canvas, glyphs, figure, any_places(random), random);
  return {.content = describe(figure),
          .media = Media::kOnePicture,
          .pictures = {canvas.picture()},
          .turns = {{"Which shape?", std::string(kShapeNames[figure.shape])},
                    {"Which colour?", std::string(kColourNames[figure.colour])},
                    {"Which digit?", str(figure.digit)}},
          .whole = {"Describe it.", describe(figure)}};
}

/// Dots in some cells of a grid of three by three.
Scene draw_dots(RandomStream& random) {
  const int dots = static_cast<int>(random.between(1, 6));
  const int colour = static_cast<int>(random.below(kColourNames.size()));
  std::vector<int> cells{0, 1, 2, 3, 4, 5, 6, 7, 8};
  random.shuffle(std::span(cells));
  cells.resize(dots);
  Canvas canvas(kSmallSide, kSmallSide, paper(random));
  const Colour shade = shade_of(colour, random);
  const std::int64_t radius = random.between(5 * kPixel, 7 * kPixel);
  std::vector<bool> taken(9);
  for (const int cell : cells) {
    const Place centre{(10 + 18 * (cell % 3)) * kPixel + random.between(-kPixel, kPixel),
                       (10 + 18 * (cell / 3)) * kPixel + random.between(-kPixel, kPixel)};
    canvas.fill(shape_outline(/*circle*/ 0, centre, radius), shade);
    taken[cell] = true;
  }
  std::string content = str(kColourNames[colour], " dots ");
  for (const bool dot : taken) content += dot ? 'o' : '.';
  return {.content = content,
          .media = Media::kOnePicture,
          .pictures = {canvas.picture()},
          .turns = {{"How many dots?", str(dots)},
                    {"Which colour?", std::string(kColourNames[colour])}},
          .whole = {"Describe it.", str(dots, " ", kColourNames[colour], " dots")}};
}

/// A price tag: a word, and a number above or below it.
Scene draw_tag(RandomStream& random, const Glyphs& glyphs) {
  const std::string name(kGoods[random.below(kGoods.size())]);
  const std::string price = str(random.between(1, 9));
  Canvas canvas(kSmallSide, kSmallSide, paper(random));
  const auto write = [&](std::string_view text, int column, int line) {
    const std::int64_t x = random.between(-2 * kPixel, 2 * kPixel);
    const std::int64_t y = random.between(-2 * kPixel, 2 * kPixel);
    glyphs.draw(canvas, text,
                {column * kGlyphAdvance * kPixel + x, (line * kSmallSide / 2 + 21) * kPixel + y},
                kGlyphAdvance, kInk);
  };
  const int line = static_cast<int>(random.below(2));
  write(name, 0, line);
  write(price, static_cast<int>(random.below(4)), 1 - line);
  const std::string content = str(name, " ", price);
  return {.content = content,
          .media = Media::kOnePicture,
          .pictures = {canvas.picture()},
          .turns = {{"What is it?", name}, {str("How much is ", name, "?"), content}},
          .whole = {"Read it.", content}};
}

}  // namespace

Scene draw_shapes(RandomStream& random, const Glyphs& glyphs) {
  const std::uint64_t kind = random.below(3);
  Scene scene = kind == 0   ? draw_one_figure(random, glyphs)
                : kind == 1 ? draw_tag(random, glyphs)
                            : draw_dots(random);
  random.shuffle(std::span(scene.turns));
  return scene;
}

}  // namespace tributary::data
