#include "core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/result.h"

namespace tributary {
namespace {

using testing::HasSubstr;

TEST(Error, PrintsItsPartsInTheFixedOrder) {
  const Error error(Fault::kInput,
                    {.what = "config: heads do not divide",
                     .where = "plan.json:31",
                     .found = "28",
                     .expected = "a multiple of 8",
                     .fix = "set tp to 4"},
                    std::source_location::current());
  EXPECT_THAT(error.what(),
              HasSubstr("input error: config: heads do not divide; where: plan.json:31; "
                        "found: 28; expected: a multiple of 8; fix: set tp to 4 ["));
  const Error copy = error;
  EXPECT_EQ(copy.parts().where, "plan.json:31");
  EXPECT_EQ(copy.parts().fix, "set tp to 4");
}

TEST(Error, LeavesOutEmptyPartsAndTakesTheExitCodeOfItsFault) {
  try {
    TRIB_RAISE(Fault::kResource, .what = "train: disk is full");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("resource error: train: disk is full ["));
    EXPECT_EQ(error.exit_code(), ExitCode::kResource);
  }
  try {
    TRIB_REQUIRE(false, .what = "checkpoint: damaged", .exit = ExitCode::kCheckpointRefused);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kCheckpointRefused);
  }
}

TEST(Error, CutsLongWordsAndKeepsBothTheirEnds) {
  const std::string name = "begin" + std::string(10'000, 'x') + "end.json";
  const Error error(Fault::kInput, {.what = "config: no such file", .where = name + " line 3"},
                    std::source_location::current());
  const std::string text = error.what();
  EXPECT_LT(text.size(), 500U);
  EXPECT_THAT(text, HasSubstr("where: beginxxx"));
  EXPECT_THAT(text, HasSubstr("xxx...xxx"));
  EXPECT_THAT(text, HasSubstr("xend.json line 3 ["));
  std::string sentence;  // of ordinary words: it stays whole
  for (int i = 0; i < 200; ++i) sentence += "keys of the file, ";
  const Error listed(Fault::kInput, {.what = "config: unknown", .expected = sentence},
                     std::source_location::current());
  EXPECT_THAT(listed.what(), HasSubstr(sentence));
}

TEST(Error, CutsNoCharacterInTwo) {
  std::string name;
  for (int i = 0; i < 1000; ++i) name += "\u00e4";
  for (const char* shift : {"", "a"}) {
    const Error error(Fault::kInput, {.what = "config: none", .where = shift + name},
                      std::source_location::current());
    const std::string text = error.what();
    const std::size_t cut = text.find("...");
    ASSERT_NE(cut, std::string::npos);
    EXPECT_EQ(text.substr(cut - 2, 2), "\u00e4");
    EXPECT_EQ(text.substr(cut + 3, 2), "\u00e4");
  }
}

TEST(Escaped, EscapesUnprintableBytesAndCutsLongText) {
  EXPECT_EQ(escaped("a\nb"), "\"a\\x0ab\"");
  EXPECT_EQ(escaped(std::string(300, 'x')).size(), 205U);
}

TEST(Result, GivesItsValueOrItsRefusal) {
  const Result<int> good = 3;
  const Result<int> bad = Refusal{"too_long", "9 tokens, capacity 8"};
  EXPECT_EQ(good.value(), 3);
  EXPECT_EQ(bad.refusal().code, "too_long");
  EXPECT_THAT([&] { (void)bad.value(); }, testing::ThrowsMessage<Error>(HasSubstr("capacity 8")));
}

}  // namespace
}  // namespace tributary
