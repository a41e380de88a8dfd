#include "data/preprocess/qwen_vl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "core/error.h"
#include "core/text.h"
#include "data/text/chat_template.h"

namespace tributary::data {
namespace {

constexpr PixelLimits kPublished = {.min = 3136, .max = 12845056};

/// Takes the nearest pixel; good enough to check the sizes that are asked for.
Picture nearest(const Picture& picture, int height, int width) {
  Picture result{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int channel = 0; channel < 3; ++channel)
        result.rgb.push_back(picture.rgb[3 * ((y * picture.height / height) * picture.width +
                                              x * picture.width / width) +
                                         channel]);
  return result;
}

Picture random_picture(int height, int width, unsigned seed) {
  std::mt19937 random(seed);
  Picture picture{width, height, std::vector<std::uint8_t>(std::size_t{3} * height * width)};
  for (std::uint8_t& value : picture.rgb) value = static_cast<std::uint8_t>(random());
  return picture;
}

Picture no_resize(const Picture&, int, int) {
  ADD_FAILURE() << "resized without need";
  return {};
}

struct SizeCase {
  PictureSize from;
  PictureSize to;
};

TEST(SmartResize, GivesTheSizesOfTransformers) {
  // Cases of docs/theory/numerics.md, "Image size", all checked with transformers 5.17.
  const SizeCase cases[] = {
      {{1080, 1920}, {1092, 1932}}, {{720, 1280}, {728, 1288}}, {{480, 640}, {476, 644}},
      {{336, 336}, {336, 336}},     {{224, 224}, {224, 224}},   {{100, 30}, {112, 28}},
      {{9375, 6250}, {4368, 2912}}, {{340, 600}, {336, 588}},   {{42, 70}, {56, 56}},
      {{50, 50}, {56, 56}},         {{13, 13}, {56, 56}},       {{5000, 5000}, {3556, 3556}},
      {{14, 2000}, {28, 672}},      {{10, 1500}, {28, 700}},
  };
  for (const SizeCase& one : cases) {
    SCOPED_TRACE(str(one.from.height, "x", one.from.width));
    EXPECT_EQ(smart_resize(one.from, 28, kPublished).value(), one.to);
  }
}

TEST(SmartResize, KeepsMultiplesAndLimitsWhereTheAspectAllows) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    std::mt19937 random(seed);
    const auto draw = [&](std::int64_t min, std::int64_t range) {
      return min + static_cast<std::int64_t>(random() % range);
    };
    const PictureSize from{draw(1, 3000), draw(1, 3000)};
    const PixelLimits limits{draw(3136, 100000), draw(200000, 1000000)};
    const Result<PictureSize> to = smart_resize(from, 28, limits);
    if (!to) {
      EXPECT_EQ(to.refusal().code, "extreme_aspect");
      EXPECT_GT(std::max(from.height, from.width), 200 * std::min(from.height, from.width));
      continue;
    }
    EXPECT_EQ(to.value().height % 28 + to.value().width % 28, 0);
    EXPECT_GE(to.value().height * to.value().width, limits.min);
  }
}

TEST(SmartResize, RefusesExtremeAspectsAndEmptyPictures) {
  EXPECT_TRUE(smart_resize({10, 2000}, 28, kPublished));
  const Result<PictureSize> wide = smart_resize({10, 2001}, 28, kPublished);
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.refusal().code, "extreme_aspect");
  EXPECT_THAT(wide.refusal().reason, testing::HasSubstr("2001x10"));
  EXPECT_EQ(smart_resize({0, 5}, 28, kPublished).refusal().code, "no_pixels");
}

/// The definition of docs/theory/numerics.md, "Patch rows", index by index.
float expected_value(std::span<const Picture> frames, const PatchedItem& item,
                     const PreprocessorConfig& config, std::int64_t row, std::int64_t column) {
  const std::int64_t in_block = row % (config.merge * config.merge);
  std::int64_t block = row / (config.merge * config.merge);
  const std::int64_t blocks_wide = item.grid.columns / config.merge;
  const std::int64_t blocks = blocks_wide * (item.grid.rows / config.merge);
  const std::int64_t step = block / blocks;
  block %= blocks;
  const std::int64_t grid_y = block / blocks_wide * config.merge + in_block / config.merge;
  const std::int64_t grid_x = block % blocks_wide * config.merge + in_block % config.merge;
  const std::int64_t area = config.patch * config.patch;
  const std::int64_t channel = column / (config.temporal_patch * area);
  const std::int64_t slot = column / area % config.temporal_patch;
  const std::int64_t y = grid_y * config.patch + column % area / config.patch;
  const std::int64_t x = grid_x * config.patch + column % config.patch;
  const std::int64_t frame =
      std::min<std::int64_t>(step * config.temporal_patch + slot, std::ssize(frames) - 1);
  const float level = frames[frame].rgb[3 * (y * frames[frame].width + x) + channel];
  return (level / 255.0F - config.mean[channel]) / config.deviation[channel];
}

void expect_rows(std::span<const Picture> frames, const PatchedItem& item,
                 const PreprocessorConfig& config) {
  ASSERT_EQ(std::ssize(item.rows), item.grid.patches() * config.patch_width());
  for (std::int64_t row = 0; row < item.grid.patches(); ++row)
    for (std::int64_t column = 0; column < config.patch_width(); ++column)
      ASSERT_NEAR(item.rows[row * config.patch_width() + column],
                  expected_value(frames, item, config, row, column), 1e-6)
          << "row " << row << " column " << column;
}

TEST(PatchImage, OrdersRowsAndColumnsAsTheDefinition) {
  const PreprocessorConfig config;
  const Picture picture = random_picture(84, 112, 1);
  const PatchedItem item = patch_image(picture, config, no_resize).value();
  EXPECT_EQ(item.grid, (Grid{1, 6, 8}));
  EXPECT_EQ(item.modality, Modality::kImage);
  EXPECT_EQ(merged_tokens(item.grid, config), 12);
  expect_rows({&picture, 1}, item, config);
}

TEST(PatchImage, ResizesToTheGridOfItsSize) {
  const PreprocessorConfig config;
  const Picture picture = random_picture(100, 30, 2);
  const PatchedItem item = patch_image(picture, config, nearest).value();
  EXPECT_EQ(item.grid, grid_of_image({100, 30}, config).value());
  EXPECT_EQ(item.grid, (Grid{1, 8, 2}));
  const Picture expected = nearest(picture, 112, 28);
  expect_rows({&expected, 1}, item, config);
}

TEST(PatchImage, StopsAtAResizeOfAnotherSize) {
  const Resize wrong = [](const Picture& picture, int, int) { return picture; };
  EXPECT_THAT([&] { (void)patch_image(random_picture(100, 30, 2), {}, wrong); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  testing::HasSubstr("resize gave another size"), testing::HasSubstr("112x28"))));
}

TEST(PatchClip, PairsFramesAndRepeatsTheLastOfAnOddCount) {
  const PreprocessorConfig config;
  for (const int count : {1, 2, 3, 4}) {
    SCOPED_TRACE(str(count, " frames"));
    std::vector<Picture> frames;
    for (int i = 0; i < count; ++i) frames.push_back(random_picture(56, 84, 10 + i));
    const PatchedItem item = patch_clip(frames, 4.0, config, no_resize).value();
    EXPECT_EQ(item.grid, (Grid{(count + 1) / 2, 4, 6}));
    EXPECT_EQ(item.modality, Modality::kVideo);
    EXPECT_EQ(item.seconds_per_step, 0.5);
    expect_rows(frames, item, config);
  }
}

TEST(PatchClip, TakesTheLimitsOfClips) {
  PreprocessorConfig config;
  config.clip = {.min = 3136, .max = 56 * 56};
  EXPECT_EQ(grid_of_clip({224, 224}, 3, config).value(), (Grid{2, 4, 4}));
  EXPECT_EQ(grid_of_image({224, 224}, config).value(), (Grid{1, 16, 16}));
}

TEST(PatchClip, RefusesNoFramesAndMixedSizes) {
  EXPECT_EQ(patch_clip({}, 2.0, {}, no_resize).refusal().code, "no_frames");
  const Picture frames[] = {random_picture(56, 56, 1), random_picture(56, 84, 2)};
  const Result<PatchedItem> mixed = patch_clip(frames, 2.0, {}, no_resize);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.refusal().code, "frame_sizes");
  EXPECT_THAT(mixed.refusal().reason, testing::HasSubstr("frame 1 has 84x56"));
  EXPECT_THAT([&] { (void)patch_clip(frames, 0.0, {}, no_resize); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("frames per second")));
}

/// The processor of the released Qwen3-VL.
PreprocessorConfig third_config() {
  PreprocessorConfig config;
  config.patch = 16;
  config.image = {.min = 65536, .max = 16777216};
  config.clip = {.min = 4096, .max = 25165824};
  config.limits_whole_clip = true;
  return config;
}

struct ClipSize {
  std::int64_t frames;
  PictureSize given, resized;
  std::int64_t steps;
};

// From transformers' Qwen3-VL video processor: docs/theory/numerics.md, "Image size".
TEST(GridOfClip, HasTheSizesOfTransformersWhereLimitsHoldForAllFrames) {
  const std::vector<ClipSize> sizes{
      {15, {720, 1280}, {704, 1280}, 8},   {46, {720, 1280}, {544, 960}, 23},
      {16, {480, 640}, {480, 640}, 8},     {768, {720, 1280}, {128, 224}, 384},
      {4, {1080, 1920}, {1088, 1920}, 2},  {60, {1080, 1920}, {480, 832}, 30},
      {13, {1080, 1920}, {1088, 1920}, 7}, {4, {20, 40}, {32, 64}, 2}};
  for (const ClipSize& size : sizes) {
    const Result<Grid> grid = grid_of_clip(size.given, size.frames, third_config());
    ASSERT_TRUE(grid.has_value());
    EXPECT_EQ(grid.value(), (Grid{size.steps, size.resized.height / 16, size.resized.width / 16}))
        << size.frames << " frames";
  }
}

TEST(GridOfClip, ObeysTheLimitOfTheRunForEachFrame) {
  PreprocessorConfig config = third_config();
  config.max_of_frame = 50176;
  const Result<Grid> grid = grid_of_clip({1080, 1920}, 16, config);
  ASSERT_TRUE(grid.has_value());
  EXPECT_LE(grid.value().rows * grid.value().columns * 256, 50176);
  EXPECT_GT(grid.value().rows * grid.value().columns * 256, 50176 / 2);
}

TEST(TimesOfClip, AreWhatTransformersWrites) {
  const auto texts = [](std::int64_t frames, double fps) {
    std::vector<std::string> list;
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < frames; ++i) seconds.push_back(static_cast<double>(i) / fps);
    for (const double time : times_of_clip(seconds, third_config()))
      list.push_back(text_of_time(time));
    return list;
  };
  EXPECT_EQ(texts(5, 2),
            (std::vector<std::string>{"<0.2 seconds>", "<1.2 seconds>", "<2.0 seconds>"}));
  EXPECT_EQ(texts(8, 10).back(), "<0.6 seconds>") << "(6/10 + 7/10) / 2 is below 0.65";
  EXPECT_TRUE(times_of_clip(std::array{0.0, 0.1}, PreprocessorConfig()).empty())
      << "Qwen2.5-VL says none";
}

}  // namespace
}  // namespace tributary::data
