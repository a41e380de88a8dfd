#include <array>
#include <span>

#include "core/text.h"
#include "data/demo/goods.h"
#include "data/demo/scene.h"

namespace tributary::data {
namespace {

std::vector<std::string_view> some_words(int count, RandomStream& random) {
  std::vector<std::string_view> words(kGoods.begin(), kGoods.end());
  random.shuffle(std::span(words));
  words.resize(count);
  return words;
}

/// A list of prices, and a question about one of its lines.
Scene write_prices(RandomStream& random) {
  Scene scene{.whole = {"Repeat it.", ""}};
  std::string& list = scene.whole.answer;
  for (const std::string_view word : some_words(3, random)) {
    const std::int64_t price = random.between(1, 9);
    list += str(list.empty() ? "" : "\n", word, " ", price);
    scene.turns.push_back({"", str(word, " ", price)});
  }
  for (std::size_t line = 0; line < 3; ++line) scene.turns[line].ask = kPlaceQuestions[line];
  return scene;
}

/// A list of words, and a question about the word at one place.
Scene write_order(RandomStream& random) {
  Scene scene{.whole = {"Repeat it.", ""}};
  std::string& list = scene.whole.answer;
  for (const std::string_view word : some_words(5, random)) {
    list += str(list.empty() ? "" : "\n", word);
    scene.turns.push_back({"", std::string(word)});
  }
  for (std::size_t line = 0; line < 3; ++line) scene.turns[line].ask = kPlaceQuestions[line];
  scene.turns[4].ask = "Which is last?";
  scene.turns.erase(scene.turns.begin() + 3);
  return scene;
}

}  // namespace

Scene write_text(RandomStream& random, const Glyphs& /*draws nothing*/) {
  Scene scene = random.below(2) == 0 ? write_prices(random) : write_order(random);
  scene.introduction = scene.whole.answer + "\n";
  scene.content = scene.introduction;
  random.shuffle(std::span(scene.turns));
  return scene;
}

}  // namespace tributary::data
