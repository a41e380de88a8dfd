#include "model/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::model {
namespace {

using config::MropeMode;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kImage = 90;
constexpr std::int64_t kVideo = 91;

config::ModelConfig vision_model() {
  config::ModelConfig config;
  config.family = config::ModelFamily::kQwen2_5Vl;
  config.vision.emplace();
  config.backbone.mrope_section = {2, 1, 1};
  config.tokens.image_pad = kImage;
  config.tokens.video_pad = kVideo;
  return config;
}

Numbers& append(Numbers& list, std::int64_t value, int count) {
  list.insert(list.end(), count, value);
  return list;
}

Numbers text(int count) {
  Numbers list;
  return append(list, 1, count);
}

/// One row (0 time, 1 row, 2 column) of the positions.
Numbers row_of(const at::Tensor& positions, int row) {
  const at::Tensor values = positions[row].contiguous();
  return {values.const_data_ptr<std::int64_t>(),
          values.const_data_ptr<std::int64_t>() + values.numel()};
}

at::Tensor of_one_sample(const Numbers& tokens, std::vector<Grid> images, std::vector<Grid> videos,
                         std::vector<double> seconds, MropeMode mode) {
  const std::int32_t cu[] = {0, static_cast<std::int32_t>(tokens.size())};
  return position_ids(vision_model(),
                      {.tokens = tokens,
                       .cu_seqlens = cu,
                       .images = images,
                       .videos = videos,
                       .seconds_per_step = seconds},
                      mode);
}

TEST(PositionIds, EqualTheGoldenOfAnImageInBothModes) {
  Numbers tokens = text(3);
  append(append(tokens, kImage, 6), 1, 2);
  for (const MropeMode mode : {MropeMode::kOfficial, MropeMode::kHf5}) {
    const at::Tensor positions = of_one_sample(tokens, {{1, 4, 6}}, {}, {}, mode);
    EXPECT_EQ(row_of(positions, 0), (Numbers{0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7}));
    EXPECT_EQ(row_of(positions, 1), (Numbers{0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7}));
    EXPECT_EQ(row_of(positions, 2), (Numbers{0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7}));
  }
}

/// text2, video(4,4,4), text2; the time axis is {0, 1, steps, each four times, after, after + 1}.
Numbers clip_times(const Numbers& steps, std::int64_t after) {
  Numbers list{0, 1};
  for (const std::int64_t step : steps) append(list, step, 4);
  append(append(list, after, 1), after + 1, 1);
  return list;
}

TEST(PositionIds, EqualTheGoldensOfClips) {
  Numbers tokens = text(2);
  append(append(tokens, kVideo, 16), 1, 2);
  const auto times = [&](double seconds, MropeMode mode) {
    return row_of(of_one_sample(tokens, {}, {{4, 4, 4}}, {seconds}, mode), 0);
  };
  EXPECT_EQ(times(1.0, MropeMode::kOfficial), clip_times({2, 4, 6, 8}, 9));
  EXPECT_EQ(times(1.0, MropeMode::kHf5), clip_times({2, 4, 6, 8}, 4));
  EXPECT_EQ(times(0.5, MropeMode::kOfficial), clip_times({2, 3, 4, 5}, 6));
  EXPECT_EQ(times(0.5, MropeMode::kHf5), clip_times({2, 2, 2, 2}, 4));
}

TEST(PositionIds, RestartInEverySampleAndTakeGridsInOrder) {
  Numbers tokens = text(1);
  append(append(append(append(tokens, kImage, 1), 1, 3), kVideo, 2), kImage, 4);
  const std::int32_t cu[] = {0, 3, 3, 11};  // the second sample is empty
  const Grid images[] = {{1, 2, 2}, {1, 4, 4}};
  const Grid videos[] = {{1, 2, 4}};
  const at::Tensor positions = position_ids(
      vision_model(), {.tokens = tokens, .cu_seqlens = cu, .images = images, .videos = videos},
      MropeMode::kOfficial);
  EXPECT_EQ(row_of(positions, 0), (Numbers{0, 1, 2, 0, 1, 2, 2, 4, 4, 4, 4}));
  EXPECT_EQ(row_of(positions, 1), (Numbers{0, 1, 2, 0, 1, 2, 2, 4, 4, 5, 5}));
  EXPECT_EQ(row_of(positions, 2), (Numbers{0, 1, 2, 0, 1, 2, 3, 4, 5, 4, 5}));
}

TEST(PositionIds, CountUpInTextModels) {
  const Numbers tokens{5, kImage, 6, 7};
  const std::int32_t cu[] = {0, 1, 4};
  const at::Tensor positions =
      position_ids({}, {.tokens = tokens, .cu_seqlens = cu}, MropeMode::kOfficial);
  for (int row = 0; row < 3; ++row) EXPECT_EQ(row_of(positions, row), (Numbers{0, 0, 1, 2}));
}

TEST(PositionIds, EndWhereADynamicRopeChanges) {
  config::ModelConfig model;
  model.backbone.max_positions = 3;
  const Numbers tokens{5, 6, 7, 8, 9};
  const std::int32_t fits[] = {0, 3, 5};  // the pack is longer
  const std::int32_t outgrows[] = {0, 1, 5};
  const auto run = [&](std::span<const std::int32_t> cu) {
    return position_ids(model, {.tokens = tokens, .cu_seqlens = cu}, MropeMode::kOfficial);
  };
  (void)run(outgrows);
  model.backbone.dynamic_rope = true;
  (void)run(fits);
  EXPECT_THAT([&] { (void)run(outgrows); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a sample outgrows a dynamic rope"),
                                         HasSubstr("found: 4 tokens"),
                                         HasSubstr("max_position_embeddings 3"))));
}

TEST(PositionIds, RefusePlaceholdersThatDoNotMatch) {
  const auto run = [](const Numbers& tokens, std::vector<Grid> images,
                      std::vector<double> seconds = {}) {
    return [=] { (void)of_one_sample(tokens, images, {}, seconds, MropeMode::kOfficial); };
  };
  EXPECT_THAT(
      run({1, kImage, kImage, 1}, {{1, 4, 4}}),
      ThrowsMessage<Error>(AllOf(HasSubstr("do not match its grid"), HasSubstr("sample 0, token 1"),
                                 HasSubstr("2 placeholders"), HasSubstr("expected: 4"))));
  EXPECT_THAT(run({kImage, kImage}, {{1, 2, 2}}),
              ThrowsMessage<Error>(AllOf(HasSubstr("placeholder without an image or clip"),
                                         HasSubstr("token 1"), HasSubstr("1 images"))));
  EXPECT_THAT(run({kVideo}, {{1, 2, 2}}), ThrowsMessage<Error>(HasSubstr("0 clips")));
  EXPECT_THAT(run({1, 1}, {{1, 2, 2}}),
              ThrowsMessage<Error>(AllOf(HasSubstr("more images or clips than placeholders"),
                                         HasSubstr("found: 1 images"))));
  EXPECT_THAT(run({1, 1}, {}, {1.0}), ThrowsMessage<Error>(HasSubstr("seconds per step")));
}

TEST(PositionIds, RefuseBoundariesThatDoNotFit) {
  const Numbers tokens{1, 2, 3};
  const std::int32_t cu[] = {0, 2};
  EXPECT_THAT(
      [&] { (void)position_ids({}, {.tokens = tokens, .cu_seqlens = cu}, MropeMode::kOfficial); },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("sample boundaries"), HasSubstr("2 boundaries, 3 tokens"))));
}

}  // namespace
}  // namespace tributary::model
