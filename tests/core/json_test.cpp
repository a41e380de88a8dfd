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
  refuses_with(R"({"a": 1, "a": 2})", "json: duplicate key; where: a.json; found: \"a\"");
  refuses_with(R"({"a": 1} x)", "json: not valid JSON");
  refuses_with("{\"a\": \"\xff\"}", "json: not valid JSON");
  refuses_with(std::string(40, '[') + std::string(40, ']'), "json: nested too deep");
  refuses_with("", "json: not valid JSON");
}

TEST(ParseJson, BoundsTheSize) {
  EXPECT_THAT([] { (void)parse_json("[1,2,3]", "a.json", {.most_bytes = 4}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("7 bytes; expected: at most 4")));
}

}  // namespace
}  // namespace tributary
