#include "app/serve/stop_words.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace tributary::app {
namespace {

/// What is shown of a text that comes in pieces of these lengths, in turn.
std::string show(const std::string& text, std::vector<std::string> words,
                 const std::vector<std::size_t>& lengths) {
  StopWords stop(std::move(words));
  std::string shown;
  std::size_t turn = 0;
  for (std::size_t at = 0; at < text.size() && !stop.found();) {
    const std::size_t length = lengths[turn++ % lengths.size()];
    shown += stop.push(std::string_view(text).substr(at, length));
    at += length;
  }
  return shown + stop.finish();
}

TEST(StopWords, CutsAtTheWordThatIsCompleteFirst) {
  const auto draw_text = [](RandomStream& random, std::size_t max) {
    std::string text;
    const std::size_t length = 1 + random.below(max);
    for (std::size_t i = 0; i < length; ++i) text += "ab"[random.below(2)];
    return text;
  };
  for (std::uint64_t draw = 0; draw < 3000; ++draw) {
    RandomStream random(/*seed=*/5, "stop words", draw);
    const std::string text = draw_text(random, 14);
    const std::vector<std::string> words{draw_text(random, 4), draw_text(random, 5)};
    std::pair first{text.size() + 1, text.size()};  // end and beginning of a word
    for (const std::string& word : words)
      if (const std::size_t at = text.find(word); at != std::string::npos)
        first = std::min(first, {at + word.size(), at});
    const std::size_t end = first.second;
    EXPECT_EQ(show(text, words, {1 + random.below(3), 1 + random.below(3)}), text.substr(0, end))
        << text << " " << words[0] << " " << words[1];
  }
}

TEST(StopWords, ShowsWhatCannotBeginAWordAtOnce) {
  StopWords stop({"\n\n"});
  EXPECT_EQ(stop.push("one"), "one");
  EXPECT_EQ(stop.push("\n"), "");
  EXPECT_EQ(stop.push("two\n"), "\ntwo");
  EXPECT_EQ(stop.push("\nthree"), "");
  EXPECT_TRUE(stop.found());
  EXPECT_EQ(stop.push("four") + stop.finish(), "");
}

TEST(StopWords, LetsAllPassWithoutWords) {
  StopWords stop({});
  EXPECT_EQ(stop.push("a") + stop.push("b") + stop.finish(), "ab");
}

}  // namespace
}  // namespace tributary::app
