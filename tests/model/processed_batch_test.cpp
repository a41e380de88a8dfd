#include "model/processed_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"
#include "tests/model/tiny_text_model.h"

namespace tributary::model {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Inputs = std::map<std::string, at::Tensor>;

std::vector<std::int64_t> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().view({-1});
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

at::Tensor table(const std::vector<std::int64_t>& values, std::int64_t rows) {
  return at::tensor(values, at::kLong).view({rows, -1});
}

ProcessedBatch pack(const Inputs& inputs) {
  return pack_processed(tiny_config(config::ModelFamily::kQwen2), inputs, config::MropeMode::kHf5);
}

TEST(PackProcessed, LeavesPaddingOutOnEitherSide) {
  const ProcessedBatch batch = pack({{"input_ids", table({0, 5, 6, 7, 8, 0}, 2)},
                                     {"attention_mask", table({0, 1, 1, 1, 1, 0}, 2)}});
  EXPECT_THAT(numbers(batch.pack.input_ids), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(batch.pack.cu_seqlens, ElementsAre(0, 2, 4));
  EXPECT_THAT(numbers(batch.places), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(numbers(batch.pack.position_ids), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1));
}

TEST(PackProcessed, SplitsARowWherePositionsRestart) {
  const ProcessedBatch batch = pack({{"input_ids", table({1, 2, 3, 4, 5, 6}, 1)},
                                     {"position_ids", table({0, 1, 2, 0, 0, 1}, 1)}});
  EXPECT_THAT(batch.pack.cu_seqlens, ElementsAre(0, 3, 4, 6));
  const at::Tensor four = at::stack({table({0, 1, 0, 1}, 1), table({5, 5, 5, 5}, 1),
                                     table({6, 6, 6, 6}, 1), table({7, 7, 7, 7}, 1)});
  const ProcessedBatch with_four =
      pack({{"input_ids", table({1, 2, 3, 4}, 1)}, {"position_ids", four}});
  EXPECT_THAT(with_four.pack.cu_seqlens, ElementsAre(0, 2, 4));
  EXPECT_THAT(numbers(with_four.pack.position_ids),
              ElementsAre(5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7));
}

TEST(PackProcessed, KeepsARowWholeWhenItHasAMask) {
  const ProcessedBatch batch = pack({{"input_ids", table({1, 2, 3, 4}, 1)},
                                     {"attention_mask", table({1, 1, 1, 1}, 1)},
                                     {"position_ids", table({0, 1, 0, 1}, 1)}});
  EXPECT_THAT(batch.pack.cu_seqlens, ElementsAre(0, 4));
}

TEST(PackProcessed, NeverTakesAFirstTokenAsTarget) {
  const ProcessedBatch batch = pack({{"input_ids", table({1, 2, 3, 4, 5}, 1)},
                                     {"position_ids", table({0, 1, 2, 0, 1}, 1)},
                                     {"labels", table({1, 2, -100, 4, 5}, 1)}});
  EXPECT_THAT(numbers(batch.targets), ElementsAre(2, -100, -100, 5, -100));
}

TEST(PackProcessed, NamesWhatDoesNotFit) {
  const at::Tensor ids = table({1, 2, 3, 4}, 2);
  EXPECT_THAT(
      [&] {
        pack({{"input_ids", ids}, {"atention_mask", ids}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("found: \"atention_mask\""),
                                 HasSubstr("nearest known name: attention_mask"))));
  EXPECT_THAT(
      [&] {
        pack({{"labels", ids}});
      },
      ThrowsMessage<Error>(HasSubstr("input_ids are missing or of another shape")));
  EXPECT_THAT(
      [&] {
        pack({{"input_ids", ids}, {"labels", table({1, 2}, 1)}});
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("where: labels"), HasSubstr("expected: whole numbers [2, 2]"))));
  EXPECT_THAT(
      [&] {
        pack({{"input_ids", ids}, {"position_ids", at::zeros({2, 2, 2}, at::kLong)}});
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("where: position_ids"), HasSubstr("found: Long [2, 2, 2]"))));
  EXPECT_THAT(
      [&] {
        pack({{"input_ids", ids}, {"attention_mask", at::zeros_like(ids)}});
      },
      ThrowsMessage<Error>(HasSubstr("batch holds no token")));
  EXPECT_THAT(
      [&] {
        pack({{"input_ids", ids}, {"labels", table({1, 61, -100, -7}, 2)}});
      },
      ThrowsMessage<Error>(HasSubstr("found: 61; expected: -100 or 0 to 60")));
  EXPECT_THAT(
      [&] {
        pack({{"input_ids", ids}, {"pixel_values", at::zeros({4, 3})}});
      },
      ThrowsMessage<Error>(HasSubstr("pixels and grids come together; found: pixel_values")));
  EXPECT_THAT(
      [&] {
        pack({{"input_ids", ids},
              {"pixel_values", at::zeros({4, 3})},
              {"image_grid_thw", table({1, 2}, 1)}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("where: image_grid_thw"), HasSubstr("found: [1, 2]"))));
  EXPECT_THAT(
      [&] {
        pack({{"input_ids", ids},
              {"pixel_values", at::zeros({5, 3})},
              {"image_grid_thw", table({1, 2, 2}, 1)}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("patches do not fill the grids"),
                                 HasSubstr("found: [5, 3]; expected: [4, patch width]"))));
}

}  // namespace
}  // namespace tributary::model
