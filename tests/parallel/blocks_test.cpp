#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"
#include "parallel/embedding.h"
#include "parallel/language_head.h"
#include "parallel/linear.h"
#include "parallel/norm.h"

namespace tributary::parallel {
namespace {

std::vector<std::string> names_of(const Unit& unit) {
  std::vector<std::string> names;
  for (const auto& parameter : unit.parameters()) names.push_back(parameter->name);
  return names;
}

TEST(Blocks, DeclareTheirParametersUnderCheckpointNames) {
  Unit unit("backbone", "layer");
  const Linear down(unit, "mlp.down_proj", {.in = 6, .out = 4});
  const JoinedLinear qkv(unit, {"q", "k", "v"}, {{4}, {2}, {2}}, {.in = 4, .bias = Bias::kZeros});
  const Norm norm(unit, "norm", 4, 1e-6);
  EXPECT_THAT(names_of(unit),
              testing::ElementsAre("mlp.down_proj.weight", "q.weight", "k.weight", "v.weight",
                                   "q.bias", "k.bias", "v.bias", "norm.weight"));
}

TEST(JoinedLinear, EqualsTheSeparateProducts) {
  Unit unit("backbone", "layer");
  const JoinedLinear joined(unit, {"q", "k", "v"}, {{4}, {3}, {2}},
                            {.in = 5, .bias = Bias::kZeros});
  unit.materialize(at::kCPU, at::kDouble, /*trainable=*/false);
  unit.shard_value().normal_();
  const at::Tensor x = at::randn({7, 5}, at::kDouble);
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < 3; ++i)
    parts.push_back(at::linear(x, unit.parameters()[i]->value, unit.parameters()[i + 3]->value));
  EXPECT_LT(at::abs(joined(x) - at::cat(parts, 1)).max().item<double>(), 1e-13);
}

TEST(LanguageHead, SharesTheWeightOfATiedEmbedding) {
  Unit unit("backbone", "embed");
  const Embedding embedding(unit, "embed_tokens", 6, 3, 0.02);
  const LanguageHead head(unit, embedding);
  unit.materialize(at::kCPU, at::kDouble, /*trainable=*/false);
  unit.shard_value().normal_();
  EXPECT_EQ(unit.parameters().size(), 1u);
  const at::Tensor rows = embedding(at::arange(6, at::kLong));
  EXPECT_LT(at::abs(head(rows) - at::matmul(rows, rows.t())).max().item<double>(), 1e-13);
}

TEST(Embedding, NamesTheFirstIdOutsideTheVocabulary) {
  Unit unit("backbone", "embed");
  const Embedding embedding(unit, "embed_tokens", 6, 3, 0.02);
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/false);
  EXPECT_THAT(
      [&] {
        (void)embedding(at::tensor({2, 9, -1}, at::kLong));
      },
      testing::ThrowsMessage<Error>(
          testing::HasSubstr("where: token 1; found: id 9; expected: 0 to 5")));
}

}  // namespace
}  // namespace tributary::parallel
