#include "train/optimizer/parameter_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/name_pattern.h"

namespace tributary::train {
namespace {

using testing::HasSubstr;

parallel::Parameter make_parameter(std::string name, std::vector<std::int64_t> shape) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .split = {},
          .initializer = {},
          .value = {},
          .offset = 0};
}

TEST(MatchesPattern, TakesStarsAndQuestionMarks) {
  EXPECT_TRUE(matches_pattern("model.layers.*.bias", "model.layers.12.self_attn.q_proj.bias"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "a_bb_bc"));
  EXPECT_TRUE(matches_pattern("layer.?", "layer.3"));
  EXPECT_FALSE(matches_pattern("layer.?", "layer.31"));
  EXPECT_FALSE(matches_pattern("a*b", "abc"));
  EXPECT_FALSE(matches_pattern("norm", "norm.weight"));
  EXPECT_FALSE(matches_pattern("", "x"));
}

TEST(FindRule, DecaysMatricesAlone) {
  const config::OptimizerSection optimizer{.weight_decay = 0.3, .groups = {}};
  EXPECT_EQ(find_rule(optimizer, "backbone", make_parameter("q.weight", {4, 4})),
            (ParameterRule{.learning_rate_scale = 1, .weight_decay = 0.3}));
  EXPECT_EQ(find_rule(optimizer, "backbone", make_parameter("norm.weight", {4})),
            (ParameterRule{.learning_rate_scale = 1, .weight_decay = 0}));
}

TEST(FindRule, TakesTheFirstGroupThatMatches) {
  config::OptimizerSection optimizer{.weight_decay = 0.3, .groups = {}};
  optimizer.groups = {{.match = "*.bias", .learning_rate_scale = 2, .weight_decay = 0.5},
                      {.match = "vision", .learning_rate_scale = 0.1},
                      {.match = "*", .learning_rate_scale = 7}};
  EXPECT_EQ(find_rule(optimizer, "vision", make_parameter("q.bias", {4})),
            (ParameterRule{.learning_rate_scale = 2, .weight_decay = 0.5}));
  EXPECT_EQ(find_rule(optimizer, "vision", make_parameter("q.weight", {4, 4})),
            (ParameterRule{.learning_rate_scale = 0.1, .weight_decay = 0.3}));
  EXPECT_EQ(find_rule(optimizer, "backbone", make_parameter("norm.weight", {4})),
            (ParameterRule{.learning_rate_scale = 7, .weight_decay = 0}));
}

TEST(CheckGroups, NamesAGroupThatMatchesNothing) {
  std::vector<std::unique_ptr<parallel::Unit>> units;
  units.push_back(std::make_unique<parallel::Unit>("backbone", "backbone.norm"));
  units.back()->declare("model.norm.weight", {4}, {});
  config::OptimizerSection optimizer;
  optimizer.groups = {{.match = "model.nrm.weight"}};
  EXPECT_THAT([&] { check_groups(optimizer, units); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(HasSubstr("train: parameter group matches nothing"),
                                 HasSubstr("found: match = model.nrm.weight"),
                                 HasSubstr("did you mean model.norm.weight"))));
}

}  // namespace
}  // namespace tributary::train
