#include <span>

#include "core/text.h"
#include "data/demo/figure.h"
#include "data/demo/scene.h"

namespace tributary::data {
namespace {

constexpr int kFrames = 4;

struct Way {
  std::string_view name;
  int x;
  int y;
};
constexpr std::array<Way, 8> kWays{Way{"left", -1, 0},   {"right", 1, 0},     {"up", 0, -1},
                                   {"down", 0, 1},       {"up left", -1, -1}, {"up right", 1, -1},
                                   {"down left", -1, 1}, {"down right", 1, 1}};

/// A ball that crosses the picture, in one of eight ways.
Scene draw_motion(RandomStream& random) {
  const Way& way = kWays[random.below(kWays.size())];
  const int colour = static_cast<int>(random.below(kColourNames.size()));
  Scene scene{.content = str(kColourNames[colour], " ball ", way.name),
              .media = Media::kClip,
              .turns = {{"Which way does it move?", std::string(way.name)},
                        {"Which colour?", std::string(kColourNames[colour])}},
              .whole = {"Describe it.", str(kColourNames[colour], " ball ", way.name)}};
  const Colour background = paper(random);
  const Colour shade = shade_of(colour, random);
  const std::int64_t radius = random.between(9 * kPixel, 12 * kPixel);
  const std::int64_t pace = random.between(6 * kPixel, 8 * kPixel);  // a frame
  const Place middle{random.between(25 * kPixel, 31 * kPixel),
                     random.between(25 * kPixel, 31 * kPixel)};
  for (int frame = 0; frame < kFrames; ++frame) {
    const std::int64_t gone = pace * (2 * frame - (kFrames - 1)) / 2;
    Canvas canvas(kSmallSide, kSmallSide, background);
    canvas.fill(
        shape_outline(/*circle*/ 0, {middle.x + way.x * gone, middle.y + way.y * gone}, radius),
        shade);
    scene.pictures.push_back(canvas.picture());
  }
  return scene;
}

/// Two figures, one after the other.
Scene draw_change(RandomStream& random, const Glyphs& glyphs) {
  const Figure first = any_figure(random);
  Figure last = any_figure(random);
  while (last.shape == first.shape || last.colour == first.colour || last.digit == first.digit)
    last = any_figure(random);
  Scene scene{.content = str(describe(first), " then ", describe(last)),
              .media = Media::kClip,
              .turns = {{"Which digit is last?", str(last.digit)},
                        {"Which digit is first?", str(first.digit)},
                        {"Which colour is last?", std::string(kColourNames[last.colour])},
                        {"Which shape is first?", std::string(kShapeNames[first.shape])}},
              .whole = {"Describe it.", str(describe(first), "\n", describe(last))}};
  const Colour background = paper(random);
  const FigurePlaces before = any_places(random);
  const FigurePlaces after = any_places(random);
  for (int frame = 0; frame < kFrames; ++frame) {
    Canvas canvas(kSmallSide, kSmallSide, background);
    const bool is_first = 2 * frame < kFrames;
    draw_figure(canvas, glyphs, is_first ? first : last, is_first ? before : after, random);
    scene.pictures.push_back(canvas.picture());
  }
  return scene;
}

}  // namespace

Scene draw_clip(RandomStream& random, const Glyphs& glyphs) {
  Scene scene = random.below(2) == 0 ? draw_motion(random) : draw_change(random, glyphs);
  random.shuffle(std::span(scene.turns));
  return scene;
}

}  // namespace tributary::data
