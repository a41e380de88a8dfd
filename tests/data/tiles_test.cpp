#include "data/preprocess/tiles.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/preprocess/qwen_vl.h"

namespace tributary::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Arranged {
  PictureSize size;
  config::TileArrangement tiles;
};

// docs/theory/numerics.md, "Tiles"
TEST(ArrangeTiles, GivesThePublishedArrangements) {
  for (const Arranged& each : std::vector<Arranged>{{{448, 448}, {1, 1}},
                                                    {{480, 640}, {3, 4}},
                                                    {{720, 1280}, {2, 4}},
                                                    {{1080, 1920}, {2, 4}},
                                                    {{1000, 300}, {3, 1}},
                                                    {{9375, 6250}, {3, 2}},
                                                    {{900, 900}, {2, 2}},
                                                    {{1344, 1344}, {3, 3}},
                                                    {{340, 600}, {1, 2}}})
    EXPECT_EQ(arrange_tiles(each.size, 448, {}), each.tiles)
        << each.size.height << "x" << each.size.width;
  EXPECT_EQ(arrange_tiles({10, 10}, 448, {.min = 5, .max = 12}), (config::TileArrangement{3, 3}))
      << "the first square of at least five tiles, which it does not fill";
}

config::VisionConfig tower_of(config::VisionClass kind) {
  config::VisionConfig tower;
  tower.kind = kind;
  tower.tile = 56;
  tower.temporal_patch = 1;
  if (kind != config::VisionClass::kSiglip) return tower;
  tower.merge = 1;
  tower.max_tiles = 9;
  tower.arrangements = {{1, 1}, {1, 2}, {2, 2}};
  return tower;
}

class TilePreprocessorFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  [[nodiscard]] PreprocessorConfig read(const std::string& text, config::VisionClass kind,
                                        std::optional<PixelLimits> limits = {}) const {
    std::ofstream(directory_ + "/preprocessor_config.json") << text;
    return read_preprocessor_config(directory_, tower_of(kind), limits);
  }

  std::string directory_ =
      testing::TempDir() + "tiles_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

constexpr config::VisionClass kIntern = config::VisionClass::kInternVit;
constexpr config::VisionClass kSiglip = config::VisionClass::kSiglip;

TEST_F(TilePreprocessorFile, NarrowsTheTilesOfTheFileByTheRun) {
  const char* file = R"({"size": {"height": 56, "width": 56}, "min_patches": 2, "max_patches": 9})";
  EXPECT_EQ(read(file, kIntern).tile_limits, (TileLimits{2, 9}));
  EXPECT_EQ(read("{}", kIntern).tile_limits, (TileLimits{1, 12}));
  config::VisionConfig of_authors = tower_of(kIntern);
  of_authors.max_tiles = 6;
  EXPECT_EQ(read_preprocessor_config(directory_, of_authors, {}).tile_limits, (TileLimits{1, 6}));
  const std::int64_t tile = 56 * 56;
  EXPECT_EQ(read(file, kIntern, PixelLimits{2 * tile + 1, 8 * tile - 1}).tile_limits,
            (TileLimits{3, 7}));
  const PreprocessorConfig kept = read("{}", kSiglip, PixelLimits{tile, 2 * tile});
  EXPECT_EQ(kept.tiles->arrangements.size(), 2);
  EXPECT_EQ(grid_of_image({500, 500}, kept).value().time, 2) << "four tiles are too many";
}

TEST_F(TilePreprocessorFile, RefusesWhatDoesNotFitTheModelOrTheRun) {
  const auto refuses = [&](const char* file, config::VisionClass kind, const char* words,
                           std::optional<PixelLimits> limits = {}) {
    EXPECT_THAT([&] { (void)read(file, kind, limits); }, ThrowsMessage<Error>(HasSubstr(words)))
        << file;
  };
  refuses(R"({"size": {"height": 448, "width": 448}})", kIntern,
          "image processor and model differ");
  refuses(R"({"image_grid_pinpoints": [[56, 112]]})", kSiglip, "image_grid_pinpoints");
  refuses("{}", kIntern, "pixel limits leave no size", PixelLimits{1, 56 * 56 - 1});
  refuses("{}", kSiglip, "pixel limits leave no size", PixelLimits{1, 56 * 56 - 1});
}

TEST(GridOfImage, RefusesAPictureWithoutPixels) {
  PreprocessorConfig config;
  config.tiles = tower_of(kIntern);
  EXPECT_EQ(grid_of_image({0, 10}, config).refusal().code, "no_pixels");
}

TEST(GridOfClip, HasATileForEachFrame) {
  PreprocessorConfig config;
  config.tiles = tower_of(kIntern);
  EXPECT_EQ(grid_of_clip({30, 90}, 5, config).value(), (Grid{5, 4, 4}));
  EXPECT_EQ(times_of_clip(std::array{0.0, 0.5, 1.0, 1.5, 2.0}, config).size(), 5)
      << "each has words of its own";
  config.tiles = tower_of(kSiglip);
  EXPECT_EQ(grid_of_clip({30, 90}, 5, config).value(), (Grid{5, 4, 4}));
  EXPECT_TRUE(times_of_clip(std::array{0.0, 0.5, 1.0, 1.5, 2.0}, config).empty());
}

}  // namespace
}  // namespace tributary::data
