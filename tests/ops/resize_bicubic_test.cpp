#include "ops/resize_bicubic.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "core/error.h"
#include "core/text.h"

namespace tributary::ops {
namespace {

using Bytes8 = std::vector<std::uint8_t>;

Bytes8 random_picture(std::int64_t height, std::int64_t width, unsigned seed) {
  std::mt19937 random(seed);
  Bytes8 picture(height * width * 3);
  for (std::uint8_t& value : picture) value = static_cast<std::uint8_t>(random());
  return picture;
}

/// Keys' cubic with a = -0.5.
double cubic(double x) {
  x = std::abs(x);
  if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
  if (x < 2) return -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
  return 0;
}

/// One pass over lines of `length` values, written from the definition, in f64.
std::vector<double> resize_line(const std::vector<double>& line, std::int64_t new_length) {
  const double scale = static_cast<double>(line.size()) / static_cast<double>(new_length);
  const double stretch = std::max(1.0, scale);
  std::vector<double> result;
  for (std::int64_t i = 0; i < new_length; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    double sum = 0;
    double weights = 0;
    for (std::size_t j = 0; j < line.size(); ++j) {
      const double weight = cubic((static_cast<double>(j) + 0.5 - centre) / stretch);
      sum += weight * line[j];
      weights += weight;
    }
    result.push_back(std::clamp(std::round(sum / weights), 0.0, 255.0));
  }
  return result;
}

Bytes8 resize_by_definition(const Bytes8& picture, std::int64_t height, std::int64_t width,
                            std::int64_t new_height, std::int64_t new_width) {
  Bytes8 result(new_height * new_width * 3);
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    std::vector<std::vector<double>> rows;
    for (std::int64_t y = 0; y < height; ++y) {
      std::vector<double> row;
      for (std::int64_t x = 0; x < width; ++x)
        row.push_back(picture[(y * width + x) * 3 + channel]);
      rows.push_back(resize_line(row, new_width));
    }
    for (std::int64_t x = 0; x < new_width; ++x) {
      std::vector<double> column;
      for (const std::vector<double>& row : rows) column.push_back(row[x]);
      column = resize_line(column, new_height);
      for (std::int64_t y = 0; y < new_height; ++y)
        result[(y * new_width + x) * 3 + channel] = static_cast<std::uint8_t>(column[y]);
    }
  }
  return result;
}

TEST(ResizeBicubic, FollowsTheDefinitionWithinTwoLevels) {
  const std::int64_t sizes[][4] = {
      {30, 41, 28, 56}, {100, 30, 112, 28}, {17, 90, 56, 28}, {64, 64, 28, 28}, {5, 3, 28, 28}};
  for (const auto& [height, width, new_height, new_width] : sizes) {
    SCOPED_TRACE(str(height, "x", width, " to ", new_height, "x", new_width));
    const Bytes8 picture = random_picture(height, width, 7);
    const Bytes8 found = resize_bicubic(picture, height, width, new_height, new_width);
    const Bytes8 expected = resize_by_definition(picture, height, width, new_height, new_width);
    ASSERT_EQ(found.size(), expected.size());
    int worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(int{found[i]} - int{expected[i]}));
    EXPECT_LE(worst, 2);  // fixed-point weights may move the first pass by one level
  }
}

TEST(ResizeBicubic, KeepsAPictureOfTheSameSize) {
  const Bytes8 picture = random_picture(28, 56, 3);
  EXPECT_EQ(resize_bicubic(picture, 28, 56, 28, 56), picture);
}

TEST(ResizeBicubic, RefusesEmptyPicturesAndWrongBuffers) {
  using testing::AllOf;
  using testing::HasSubstr;
  const Bytes8 picture = random_picture(2, 2, 1);
  EXPECT_THAT([&] { (void)resize_bicubic(picture, 2, 0, 28, 28); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("picture without pixels"), HasSubstr("2x0 to 28x28"))));
  EXPECT_THAT([&] { (void)resize_bicubic(picture, 2, 3, 28, 28); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("buffer has another size"), HasSubstr("12 values"))));
}

}  // namespace
}  // namespace tributary::ops
