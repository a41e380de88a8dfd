#include "core/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tributary {
namespace {

auto refuses_with(std::string_view text, const std::string& words) {
  EXPECT_THAT([&] { (void)parse_json(text, "a.json"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(words)))
      << text;
}

TEST(ParseJson, ReadsNestedValues) {
  EXPECT_EQ(parse_json(R"({"a": [1, {"b": 2}], "c": {"b": 3}})", "a.json")["a"][1]["b"], 2);
}

TEST(ParseJson, NamesWhatIsWrong) {
  refuses_with(R"({"a": 1, "a": 2})",
               "json: not valid JSON; where: a.json; found: duplicate key \"a\"");
  refuses_with(R"({"a": 1} x)",
               "found: byte 10: invalid literal after \"1} x\"; expected end of input");
  refuses_with(R"({"a": })", "found: byte 7: unexpected '}'; expected '[', '{', or a literal");
  refuses_with("{\"a\": \"\xff\"}", "byte 8: invalid string: ill-formed UTF-8 byte");
  refuses_with("\"" + std::string(1 << 20, 'x') + "\n", std::string(20, 'x') + "<U+000A>\"");
  refuses_with(R"({"a": 1e999})", "number overflow parsing '1e999'");
  refuses_with(std::string(40, '[') + std::string(40, ']'),
               "found: nested too deep, expected depth <= 32");
  refuses_with("", "found: byte 1: unexpected end of input");
}

TEST(ParseJson, BoundsTheSize) {
  EXPECT_THAT([] { (void)parse_json("[1,2,3]", "a.json", {.max_bytes = 4}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "json: text is larger than the limit; where: a.json; found: 7 bytes, "
                  "expected at most 4")));
}

}  // namespace
}  // namespace tributary
