#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "core/text.h"
#include "data/demo/figure.h"
#include "data/demo/goods.h"
#include "data/demo/scene.h"

namespace tributary::data {
namespace {

constexpr int kWidth = 168;  // pixels
constexpr int kHeight = 140;
constexpr int kLine = 28;  // from one line to the next
constexpr int kColumns = kWidth / kGlyphAdvance;

constexpr std::array<std::string_view, 6> kShops{"MARKET", "BAKERY",  "CORNER",
                                                 "GARDEN", "HARBOUR", "STATION"};
constexpr std::array<std::string_view, 10> kCities{"Rome", "Oslo", "Bern", "Lima", "Cork",
                                                   "Riga", "Nice", "Pisa", "Graz", "Ulm"};

/// A sheet of lines, each with a label on the left and a value on the right.
class Sheet {
 public:
  Sheet(RandomStream& random, const Glyphs& glyphs)
      : canvas_(kWidth, kHeight, paper(random)),
        glyphs_(glyphs),
        shift_{random.between(-2 * kPixel, 2 * kPixel), random.between(-2 * kPixel, 2 * kPixel)} {}

  void write(int line, int column, std::string_view text) {
    write_at(column * kGlyphAdvance, line * kLine + 21, text);
  }
  /// units: pixels
  void write_at(int left, int baseline, std::string_view text) {
    glyphs_.draw(canvas_, text, {left * kPixel + shift_.x, baseline * kPixel + shift_.y},
                 kGlyphAdvance, kInk);
  }
  void write_pair(int line, std::string_view label, std::string_view value) {
    write(line, 0, label);
    write(line, kColumns - static_cast<int>(value.size()), value);
  }
  /// Draws a rule between the descenders of the line above and the capitals of the line below.
  void rule(int line) {
    const int shift = static_cast<int>(std::lround(static_cast<double>(shift_.y) / kPixel));
    canvas_.fill_box(3, line * kLine + shift, kWidth - 6, 2, kInk);
  }
  Canvas& canvas() { return canvas_; }

 private:
  Canvas canvas_;
  const Glyphs& glyphs_;
  Place shift_;
};

template <std::size_t kNames>
std::vector<std::string_view> some(const std::array<std::string_view, kNames>& names, int count,
                                   RandomStream& random) {
  std::vector<std::string_view> mixed(names.begin(), names.end());
  random.shuffle(std::span(mixed));
  mixed.resize(count);
  return mixed;
}

Scene draw_receipt(RandomStream& random, const Glyphs& glyphs) {
  const std::string_view shop = kShops[random.below(kShops.size())];
  const std::vector<std::string_view> goods = some(kGoods, 3, random);
  Sheet sheet(random, glyphs);
  sheet.write(0, (kColumns - static_cast<int>(shop.size())) / 2, shop);
  Scene scene{.media = Media::kOnePicture,
              .turns = {{"Which shop?", std::string(shop)}},
              .whole = {"Read it.", std::string(shop)}};
  for (int i = 0; i < 3; ++i) {
    const std::string price = str(random.between(1, 9));
    sheet.write_pair(1 + i, goods[i], price);
    scene.whole.answer += str("\n", goods[i], " ", price);
    scene.turns.push_back(
        {std::string(kPlaceQuestions[static_cast<std::size_t>(i)]), str(goods[i], " ", price)});
  }
  const std::string table = str(random.between(1, 9));
  sheet.rule(4);
  sheet.write_pair(4, "TABLE", table);
  scene.whole.answer += "\nTABLE " + table;
  scene.turns.push_back({"Which table?", "TABLE " + table});
  scene.pictures = {sheet.canvas().picture()};
  return scene;
}

Scene draw_ticket(RandomStream& random, const Glyphs& glyphs) {
  const std::vector<std::string_view> cities = some(kCities, 2, random);
  const std::string train = str(random.between(1, 9));
  const std::string gate = str(static_cast<char>('A' + random.below(8)), random.below(10));
  const std::string seat = str(random.between(1, 9), static_cast<char>('A' + random.below(8)));
  Sheet sheet(random, glyphs);
  sheet.write_pair(0, "TRAIN", train);
  sheet.rule(1);
  sheet.write_pair(1, "from", cities[0]);
  sheet.write_pair(2, "to", cities[1]);
  sheet.write_pair(3, "gate", gate);
  sheet.write_pair(4, "seat", seat);
  return {.media = Media::kOnePicture,
          .pictures = {sheet.canvas().picture()},
          .turns = {{"Which train?", "TRAIN " + train},
                    {"From where?", str("from ", cities[0])},
                    {"To where?", str("to ", cities[1])},
                    {"Which gate?", "gate " + gate},
                    {"Which seat?", "seat " + seat}},
          .whole = {"Read it.", str("TRAIN ", train, "\nfrom ", cities[0], "\nto ", cities[1],
                                    "\ngate ", gate, "\nseat ", seat)}};
}

/// Four bars, a letter below each and its height, a number, above it.
Scene draw_chart(RandomStream& random, const Glyphs& glyphs) {
  constexpr int kBars = 4;
  std::string letters = "ABCDEFGHKMRT";
  std::vector<int> heights{1, 2, 3, 4, 5, 6, 7, 8, 9};
  random.shuffle(std::span(letters));
  random.shuffle(std::span(heights));
  Sheet sheet(random, glyphs);
  Scene scene{.media = Media::kOnePicture, .whole = {"Read it.", ""}};
  const Colour shade = shade_of(static_cast<int>(random.below(kColourNames.size())), random);
  for (int bar = 0; bar < kBars; ++bar) {
    const int top = 110 - 9 * heights[bar];
    sheet.canvas().fill_box(7 + 42 * bar, top, 28, 114 - top, shade);
    sheet.write(4, 1 + 3 * bar, letters.substr(bar, 1));
    sheet.write_at(14 + 42 * bar, top - 5, str(heights[bar]));
    const std::string read = str(letters[bar], " ", heights[bar]);
    scene.whole.answer += (bar == 0 ? "" : "\n") + read;
    if (bar < 3) scene.turns.push_back({std::string(kPlaceQuestions[bar]), read});
  }
  const auto [lowest, highest] = std::minmax_element(heights.begin(), heights.begin() + kBars);
  scene.turns.push_back({"How high is the tallest bar?", str(*highest)});
  scene.turns.push_back({"How high is the shortest bar?", str(*lowest)});
  scene.pictures = {sheet.canvas().picture()};
  return scene;
}

}  // namespace

Scene draw_document(RandomStream& random, const Glyphs& glyphs) {
  const std::uint64_t kind = random.below(5);
  Scene scene = kind < 2   ? draw_receipt(random, glyphs)
                : kind < 4 ? draw_ticket(random, glyphs)
                           : draw_chart(random, glyphs);
  scene.content = scene.whole.answer;
  random.shuffle(std::span(scene.turns));
  return scene;
}

}  // namespace tributary::data
