#include "data/text/clean_utf8.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/text.h"

namespace tributary::data {
namespace {

TEST(CleanUtf8, KeepsWhatIsValid) {
  const std::string text =
      "plain, \u00e9\u4e2d\U0001f600, \U0010ffff and a NUL " + std::string(1, 0);
  EXPECT_EQ(clean_utf8(text), text);
  EXPECT_TRUE(is_utf8(text));
  EXPECT_TRUE(is_utf8(""));
}

// The table of section 3.9 of the Unicode Standard, and the edges of each range.
TEST(CleanUtf8, PutsOneMarkForEachMaximalPart) {
  const std::string mark = "\uFFFD";
  EXPECT_EQ(clean_utf8("a\xF1\x80\x80\xE1\x80\xC2z\x80\x80y"),
            "a" + mark + mark + mark + "z" + mark + mark + "y");
  EXPECT_EQ(clean_utf8("\xC0\xAF"), mark + mark);                        // overlong
  EXPECT_EQ(clean_utf8("\xE0\x9F\xBF"), mark + mark + mark);             // overlong
  EXPECT_EQ(clean_utf8("\xED\xA0\x80"), mark + mark + mark);             // surrogate
  EXPECT_EQ(clean_utf8("\xF4\x90\x80\x80"), mark + mark + mark + mark);  // above U+10FFFF
  EXPECT_EQ(clean_utf8("\xF0\x90\x80"), mark);                           // cut at the end
  EXPECT_EQ(clean_utf8("\xED\x9F\xBF\xEE\x80\x80"), "\uD7FF\uE000");
  for (const char* broken : {"\xFF", "\xC2", "\xE1\x80", "\xF5\x80\x80\x80", "0123456\xE9"}) {
    EXPECT_FALSE(is_utf8(broken)) << str("length ", std::string(broken).size());
  }
}

TEST(CleanUtf8, GivesValidTextForAnyBytesAndChangesItOnce) {
  RandomStream random(3, "bytes");
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random.below(24), '\0');
    for (char& byte : bytes) {
      // Mostly lead and continuation bytes, so that valid characters occur.
      byte =
          static_cast<char>(random.below(3) == 0 ? random.below(256) : random.between(0x80, 0xF4));
    }
    const std::string clean = clean_utf8(bytes);
    EXPECT_TRUE(is_utf8(clean)) << "round " << round;
    EXPECT_EQ(clean_utf8(clean), clean) << "round " << round;
    EXPECT_EQ(is_utf8(bytes), clean == bytes) << "round " << round;
  }
}

TEST(UnfinishedUtf8, CountsTheBytesOfACharacterThatMayStillCome) {
  const std::string text = "a\U0001f600";
  EXPECT_EQ(unfinished_utf8(text), 0U);
  EXPECT_EQ(unfinished_utf8(text.substr(0, 4)), 3U);
  EXPECT_EQ(unfinished_utf8(text.substr(0, 3)), 2U);
  EXPECT_EQ(unfinished_utf8(text.substr(0, 2)), 1U);
  EXPECT_EQ(unfinished_utf8(text.substr(0, 1)), 0U);
  EXPECT_EQ(unfinished_utf8("\x80"), 0U);      // begins nothing
  EXPECT_EQ(unfinished_utf8("\xE0\x80"), 0U);  // is broken already
}

}  // namespace
}  // namespace tributary::data
