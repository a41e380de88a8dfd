#include "app/terminal/show_error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/terminal/help_format.h"

namespace tributary::app {
namespace {

constexpr const char* kError =
    "input error: config: heads do not divide; where: a.yaml:3; found: 28 heads [all]; "
    "fix: set tp to 4 [config/run/mesh_shape.cpp:88]";

TEST(LayOutError, LeavesAnErrorAsItStandsWhereNobodyReadsALineForEachPart) {
  EXPECT_EQ(lay_out_error(kError, {}), kError);
}

TEST(LayOutError, GivesEachPartALineAndTheFixLast) {
  EXPECT_EQ(lay_out_error(kError, {.in_lines = true}),
            "input error: config: heads do not divide\n"
            "  where     a.yaml:3\n"
            "  found     28 heads [all]\n"
            "  fix       set tp to 4");
}

TEST(LayOutError, ColoursWhatAndFixAndNamesTheSourceWhenAsked) {
  EXPECT_EQ(lay_out_error(kError, {.in_lines = true, .with_colour = true, .with_place = true}),
            "\033[1;31minput error: config: heads do not divide\033[0m\n"
            "  where     a.yaml:3\n"
            "  found     28 heads [all]\n"
            "  fix       \033[1;32mset tp to 4\033[0m\n"
            "  source    [config/run/mesh_shape.cpp:88]");
}

TEST(LayOutError, KeepsAListOfProblems) {
  EXPECT_EQ(
      lay_out_error("input error: config: 2 problems; where: a.yaml; found: \n  1. one; found: "
                    "x\n  2. two\n  [config/reading/problems.cpp:80]",
                    {.in_lines = true}),
      "input error: config: 2 problems\n  where     a.yaml\n  found     \n  1. one; found: x\n"
      "  2. two");
}

TEST(LayOutError, TakesAnErrorWithoutPartsAsOne) {
  EXPECT_EQ(lay_out_error("bug: it [is] broken", {.in_lines = true}), "bug: it [is] broken");
}

TEST(ErrorJson, HoldsThePartsThatAnErrorHas) {
  EXPECT_EQ(error_json(kError, 2), Json::parse(R"({"error": {
      "fault": "input", "what": "config: heads do not divide", "where": "a.yaml:3",
      "found": "28 heads [all]", "fix": "set tp to 4", "source": "config/run/mesh_shape.cpp:88"},
      "exit_code": 2})"));
  EXPECT_EQ(
      error_json("bug: it [is] broken", 70),
      Json::parse(R"({"error": {"fault": "bug", "what": "it [is] broken"}, "exit_code": 70})"));
  EXPECT_EQ(error_json("tributary launch: rank 1 was lost", 10)["error"],
            Json({{"what", "tributary launch: rank 1 was lost"}}));
}

TEST(Wrapped, BreaksAtSpacesAndKeepsLongWords) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("a-very-long-word b\n\nc", 5), "a-very-long-word\nb\n\nc");
  EXPECT_EQ(wrapped("", 5), "");
}

}  // namespace
}  // namespace tributary::app
