#include "model/encoder/window_index.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "core/error.h"
#include "core/text.h"

namespace tributary::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(IndexWindows, EqualsTheGoldenOfAGridThatWindowsDoNotDivide) {
  const Grid grid{1, 12, 12};
  const WindowIndex index = index_windows({&grid, 1}, 2, 4);
  EXPECT_THAT(index.order,
              ElementsAre(0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15, 18, 19, 20, 21, 4, 5, 10, 11, 16,
                          17, 22, 23, 24, 25, 26, 27, 30, 31, 32, 33, 28, 29, 34, 35));
  EXPECT_THAT(index.cu_windows, ElementsAre(0, 64, 96, 128, 144));
  EXPECT_THAT(index.cu_frames, ElementsAre(0, 144));
}

TEST(IndexWindows, LeavesNoEmptyWindowWhereTheGridIsAMultiple) {
  const Grid grid{1, 16, 16};
  const WindowIndex index = index_windows({&grid, 1}, 2, 4);
  EXPECT_THAT(index.cu_windows, ElementsAre(0, 64, 128, 192, 256));
  const std::vector<std::int64_t> first(index.order.begin(), index.order.begin() + 20);
  EXPECT_THAT(first,
              ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27, 4, 5, 6, 7));
}

TEST(IndexWindows, EqualsTheGoldenOfAClip) {
  const Grid grid{2, 20, 12};
  const WindowIndex index = index_windows({&grid, 1}, 2, 4);
  EXPECT_THAT(index.cu_windows,
              ElementsAre(0, 64, 96, 160, 192, 224, 240, 304, 336, 400, 432, 464, 480));
  EXPECT_THAT(index.cu_frames, ElementsAre(0, 240, 480));
}

TEST(IndexWindows, CountsTheWindowsOfALargePicture) {
  const Grid grid{1, 78, 138};
  EXPECT_EQ(index_windows({&grid, 1}, 2, 4).cu_windows.size(), 181);
}

TEST(IndexWindows, ContinuesOverItems) {
  const Grid grids[] = {{1, 4, 6}, {2, 4, 4}};
  const WindowIndex index = index_windows(grids, 2, 4);
  EXPECT_THAT(index.order, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
  EXPECT_THAT(index.cu_windows, ElementsAre(0, 24, 40, 56));
  EXPECT_THAT(index.cu_frames, ElementsAre(0, 24, 40, 56));
}

TEST(IndexWindows, KeepsEachTokenOnceAndPatchesInTheirWindow) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    std::mt19937 random(seed);
    const auto draw = [&](int max) { return std::int64_t{1 + static_cast<int>(random() % max)}; };
    std::vector<Grid> grids(draw(4));
    for (Grid& grid : grids) grid = {draw(3), 2 * draw(12), 2 * draw(12)};
    const std::int64_t window = draw(5);
    const WindowIndex index = index_windows(grids, 2, window);

    std::vector<std::int64_t> sorted = index.order;
    std::ranges::sort(sorted);
    std::vector<std::int64_t> all(sorted.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    std::int64_t patches = 0;
    for (const Grid& grid : grids) patches += grid.patches();
    ASSERT_EQ(std::ssize(index.patch_rows), patches);
    EXPECT_EQ(index.cu_windows.back(), patches);
    for (std::size_t w = 0; w + 1 < index.cu_windows.size(); ++w)
      for (std::int32_t p = index.cu_windows[w] + 1; p < index.cu_windows[w + 1]; ++p) {
        const std::int32_t first = index.cu_windows[w];
        EXPECT_EQ(index.patch_rows[p] / (2 * window), index.patch_rows[first] / (2 * window));
        EXPECT_EQ(index.patch_columns[p] / (2 * window), index.patch_columns[first] / (2 * window));
      }
  }
}

TEST(IndexWindows, RefusesImpossibleGrids) {
  const Grid grids[] = {{1, 4, 4}, {1, 4, 3}};
  EXPECT_THAT([&] { (void)index_windows(grids, 2, 4); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("impossible grid"), HasSubstr("item 1"), HasSubstr("1x4x3 patches"))));
}

}  // namespace
}  // namespace tributary::model
