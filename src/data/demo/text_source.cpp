#include <array>
#include <span>

#include "core/text.h"
#include "data/demo/scene.h"

namespace tributary::data {
namespace {

constexpr std::array<std::string_view, 12> kWords{"tea",  "cup",  "pen",  "book", "lamp", "soap",
                                                  "rice", "milk", "cake", "fork", "hat",  "key"};

std::vector<std::string_view> some_words(int count, RandomStream& random) {
  std::vector<std::string_view> words(kWords.begin(), kWords.end());
  random.shuffle(std::span(words));
  words.resize(count);
  return words;
}

/// A list of prices, and what one of the things costs.
Scene write_prices(RandomStream& random) {
  Scene scene{.content = {},
              .media = Media::kNone,
              .pictures = {},
              .introduction = {},
              .turns = {},
              .whole = {"Repeat it.", ""}};
  std::string list;
  for (const std::string_view word : some_words(3, random)) {
    const std::int64_t price = random.between(10, 99);
    list += str(list.empty() ? "" : "\n", word, " ", price);
    scene.turns.push_back({str("How much is ", word, "?"), str(price)});
  }
  scene.introduction = list + "\n";
  scene.whole.answer = list;
  return scene;
}

/// A list of words, and the one at a place.
Scene write_order(RandomStream& random) {
  Scene scene{.content = {},
              .media = Media::kNone,
              .pictures = {},
              .introduction = {},
              .turns = {},
              .whole = {"Repeat it.", ""}};
  std::string list;
  for (const std::string_view word : some_words(5, random)) {
    list += str(list.empty() ? "" : "\n", word);
    scene.turns.push_back({"", std::string(word)});
  }
  scene.turns[0].ask = "Which is first?";
  scene.turns[1].ask = "Which is second?";
  scene.turns[2].ask = "Which is third?";
  scene.turns[4].ask = "Which is last?";
  scene.turns.erase(scene.turns.begin() + 3);
  scene.introduction = list + "\n";
  scene.whole.answer = list;
  return scene;
}

}  // namespace

Scene write_text(RandomStream& random, const Glyphs& /*draws nothing*/) {
  Scene scene = random.below(2) == 0 ? write_prices(random) : write_order(random);
  scene.content = scene.introduction;
  random.shuffle(std::span(scene.turns));
  return scene;
}

}  // namespace tributary::data
