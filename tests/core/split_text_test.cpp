#include "core/split_text.h"

#include <gmock/gmock.h>

namespace tributary {
namespace {

using testing::ElementsAre;

TEST(SplitText, HasOnePartMoreThanSeparators) {
  EXPECT_THAT(split_at(',', ""), ElementsAre(""));
  EXPECT_THAT(split_at(',', "a"), ElementsAre("a"));
  EXPECT_THAT(split_at(',', "a,"), ElementsAre("a", ""));
  EXPECT_THAT(split_at(',', ",,"), ElementsAre("", "", ""));
}

TEST(SplitText, TrimsParts) {
  EXPECT_THAT(split_at(',', " a ,b c,  ", " "), ElementsAre("a", "b c", ""));
  EXPECT_THAT(split_at(',', " a ,b"), ElementsAre(" a ", "b"));
  EXPECT_EQ(trimmed("\t a\r\n", " \t\r\n"), "a");
  EXPECT_EQ(trimmed("  ", " "), "");
}

TEST(SplitText, TakesLineByLine) {
  std::string_view text = "a\n\nb";
  EXPECT_EQ(take_until('\n', text), "a");
  EXPECT_EQ(take_until('\n', text), "");
  EXPECT_EQ(take_until('\n', text), "b");
  EXPECT_EQ(text, "");
  text = "a\n";
  EXPECT_EQ(take_until('\n', text), "a");
  EXPECT_TRUE(text.empty());
}

}  // namespace
}  // namespace tributary
