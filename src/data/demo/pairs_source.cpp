#include <algorithm>
#include <span>

#include "core/text.h"
#include "data/demo/figure.h"
#include "data/demo/goods.h"
#include "data/demo/scene.h"

namespace tributary::data {
namespace {

constexpr int kPictures = 3;

/// Figures of which no two share shape, colour or digit.
std::vector<Figure> different_figures(RandomStream& random) {
  std::vector<Figure> figures;
  while (figures.size() < kPictures) {
    const Figure next = any_figure(random);
    bool is_new = true;
    for (const Figure& figure : figures)
      is_new = is_new && figure.shape != next.shape && figure.colour != next.colour &&
               figure.digit != next.digit;
    if (is_new) figures.push_back(next);
  }
  return figures;
}

}  // namespace

Scene draw_pairs(RandomStream& random, const Glyphs& glyphs) {
  Scene scene{.media = Media::kNumberedPictures, .whole = {"Describe them.", ""}};
  const std::vector<Figure> figures = different_figures(random);
  for (const Figure& figure : figures) {
    Canvas canvas(kSmallSide, kSmallSide, paper(random));
    draw_figure(canvas, glyphs, figure, any_places(random), random);
    scene.pictures.push_back(canvas.picture());
    scene.whole.answer += str(scene.whole.answer.empty() ? "" : "\n", describe(figure));
  }
  const auto [smallest, largest] = std::ranges::minmax(figures, {}, &Figure::digit);
  for (std::size_t i = 0; i < kPictures; ++i)
    scene.turns.push_back({std::string(kPlaceQuestions[i]), describe(figures[i])});
  scene.turns.push_back({"Which digit is the largest?", str(largest.digit)});
  scene.turns.push_back({"Which digit is the smallest?", str(smallest.digit)});
  scene.content = scene.whole.answer;
  random.shuffle(std::span(scene.turns));
  return scene;
}

}  // namespace tributary::data
