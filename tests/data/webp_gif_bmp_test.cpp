#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.h"
#include "data/decode/decode_picture.h"
#include "tests/data/golden_pictures.h"

namespace tributary::data {
namespace {

using ::testing::HasSubstr;

/// A GIF needs no end mark to be whole, and what follows the pixels of a first frame is not read.
TEST(DecodePicture, RefusesTruncatedWebpGifAndBmp) {
  for (const char* name :
       {"webp_quality_90", "webp_lossless", "webp_alpha_quality_20", "webp_orientation_6",
        "webp_animation", "gif_colours_16", "gif_interlaced", "gif_animation", "bmp_rgb",
        "bmp_bits_4", "bmp_masks_565"}) {
    const GoldenPicture& one = find_picture(name);
    std::size_t refused = 0;
    for (std::size_t length = 0; length < one.file.size(); ++length) {
      const auto decoded = decode_picture(std::span(one.file).first(length));
      refused += decoded ? 0 : 1;
      if (decoded) {
        EXPECT_EQ(decoded.value().rgb, one.picture.rgb) << name << " " << length;
      }
    }
    EXPECT_GT(refused, one.file.size() * 4 / 10) << name;
  }
}

TEST(DecodePicture, SurvivesDamagedWebpGifAndBmp) {
  RandomStream random(3);
  for (const GoldenPicture& one : golden_pictures()) {
    if (!one.name.starts_with("webp") && !one.name.starts_with("gif") &&
        !one.name.starts_with("bmp"))
      continue;
    for (int i = 0; i < 60; ++i) {
      Bytes8 damaged = one.file;
      for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips)
        damaged[random.below(i % 2 == 0 ? 64 : damaged.size())] =
            static_cast<std::uint8_t>(random.below(256));
      const PictureLimits limits{.max_pixels = 1 << 20};
      const auto decoded = decode_picture(damaged, limits);
      if (!decoded) continue;
      const auto [width, height, rgb] = decoded.value();
      EXPECT_EQ(rgb.size(), std::size_t{3} * static_cast<std::size_t>(width * height)) << one.name;
      EXPECT_EQ(read_picture_size(damaged, limits).value(), (PictureSize{height, width}));
    }
  }
}

TEST(DecodePicture, RefusesSizesOfWebpGifAndBmpBeforeDecoding) {
  Bytes8 gif = find_picture("gif_colours_16").file;
  gif[7] = gif[9] = 0xff;  // a canvas of 65,303 x 65,297
  EXPECT_EQ(decode_picture(gif).refusal().code, "too_large");
  EXPECT_EQ(read_picture_size(gif).refusal().code, "too_large");
  Bytes8 bmp = find_picture("bmp_bits_24").file;
  bmp[19] = bmp[23] = 0x1f;  // 7,959 x 7,953
  EXPECT_THAT(decode_picture(bmp).refusal().reason, HasSubstr("bytes ends before 7959 x 7953"));
  bmp[20] = bmp[24] = 1;
  EXPECT_EQ(decode_picture(bmp).refusal().code, "too_large");
  Bytes8 lengths = find_picture("bmp_bits_8").file;
  lengths[30] = 1;
  EXPECT_EQ(decode_picture(lengths).refusal().code, "bmp_unsupported");
  EXPECT_THAT(decode_picture(lengths).refusal().reason, HasSubstr("compression 1 at 8 bits"));
  const PictureLimits few{.max_pixels = 100};
  for (const char* name : {"webp_lossless", "gif_grey", "bmp_rgb"})
    EXPECT_EQ(decode_picture(find_picture(name).file, few).refusal().code, "too_large") << name;
}

TEST(ReadPictureSize, NeedsTheWholeWebpForItsOrientation) {
  const Bytes8& turned = find_picture("webp_orientation_6").file;
  EXPECT_EQ(read_picture_size(std::span(turned).first(turned.size() - 1)).refusal().code,
            "header_cut");
  const Bytes8& plain = find_picture("webp_quality_90").file;
  EXPECT_EQ(read_picture_size(std::span(plain).first(40)).value(), (PictureSize{17, 23}));
}

}  // namespace
}  // namespace tributary::data
