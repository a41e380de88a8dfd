#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "data/decode/png_file.h"
#include "data/demo/flat_png.h"
#include "data/demo/make_demo.h"

namespace tributary::data {
namespace {

namespace fs = std::filesystem;

class MakeDemo : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            str("make_demo_", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  DemoOptions small(const std::string& folder, std::uint64_t seed = 7) const {
    return {.directory = (root_ / folder).string(), .seed = seed, .samples = 60, .held_out = 3};
  }
  fs::path root_;
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t digest_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder));
  std::ranges::sort(files);
  std::uint64_t digest = 0;
  for (const fs::path& file : files)
    digest = RandomStream(digest, file.string() + content_of(folder / file)).next();
  return digest;
}

std::string message_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(MakeDemo, GivesTheSameBytesOnEveryMachine) {
  make_demo(small("a"));
  make_demo(small("b"));
  make_demo(small("c", /*seed=*/8));
  EXPECT_EQ(digest_of(root_ / "a"), digest_of(root_ / "b"));
  EXPECT_NE(digest_of(root_ / "a"), digest_of(root_ / "c"));
  // Seen with cairo 1.16.0, pixman 0.42.2, FreeType 2.12.1, fonts-dejavu-core 2.37-6 (Debian 12).
  EXPECT_EQ(digest_of(root_ / "a"), 5902995622155275581U);
}

TEST_F(MakeDemo, WritesRecordsWhosePicturesAreThere) {
  make_demo(small("a"));
  int train = 0;
  for (const DemoSource& source : demo_sources())
    for (const std::string split : {"train", "held_out"}) {
      std::ifstream lines(root_ / "a" / source.name / (split + ".jsonl"));
      int records = 0;
      for (std::string line; std::getline(lines, line); ++records) {
        const Json record = parse_json(line, split);
        ASSERT_EQ(record["messages"].size() % 2, 0u);
        EXPECT_TRUE(split == "train" || record["messages"].size() == 2) << line;
        std::size_t media = 0;
        for (const Json& part : record["messages"][0]["content"]) {
          std::vector<std::string> files;
          if (part["type"] == "image") files = {part["image"]};
          if (part["type"] == "video") files = part["video"].get<std::vector<std::string>>();
          for (const std::string& file : files) {
            const std::string bytes = content_of(root_ / "a" / source.name / file);
            const std::vector<std::uint8_t> png(bytes.begin(), bytes.end());
            EXPECT_TRUE(decode_png(png, {}).has_value()) << file;
            ++media;
          }
        }
        EXPECT_EQ(media == 0, source.name == "text");
      }
      if (split == "train") train += records;
      EXPECT_TRUE(split == "train" || records == 3) << records;
    }
  EXPECT_EQ(train, 60);
}

TEST_F(MakeDemo, LeavesACompleteDirectoryAndRefusesAnother) {
  EXPECT_TRUE(make_demo(small("a")));
  EXPECT_FALSE(make_demo(small("a")));
  EXPECT_THAT(message_of([&] { make_demo(small("a", /*seed=*/8)); }),
              testing::AllOf(testing::HasSubstr("directory for the demo holds something else"),
                             testing::HasSubstr("a demo.json of other options"),
                             testing::HasSubstr("rm -r")));
  fs::create_directories(root_ / "mine");
  std::ofstream(root_ / "mine" / "notes.txt") << "keep";
  EXPECT_THAT(message_of([&] { make_demo(small("mine")); }), testing::HasSubstr("no demo.json"));
  EXPECT_EQ(content_of(root_ / "mine" / "notes.txt"), "keep");
}

TEST_F(MakeDemo, RefusesANumberOfRecordsBelowOne) {
  DemoOptions options = small("a");
  options.samples = 0;
  EXPECT_THAT(message_of([&] { make_demo(options); }),
              testing::AllOf(testing::HasSubstr("at least one record"),
                             testing::HasSubstr("0 samples, 3 held out")));
}

TEST(Glyphs, NameTheFontThatIsMissingOrDamaged) {
  EXPECT_THAT(message_of([] { Glyphs("/nowhere/font.ttf"); }),
              testing::AllOf(testing::HasSubstr("font of the demo cannot be read"),
                             testing::HasSubstr("/nowhere/font.ttf"),
                             testing::HasSubstr("apt-get install fonts-dejavu-core")));
  const std::string other = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf";  // not bold
  EXPECT_THAT(message_of([&] { const Glyphs glyphs(other); }),
              testing::AllOf(testing::HasSubstr("other outlines"), testing::HasSubstr(other)));
}

TEST(WriteFlatPng, KeepsEveryPixel) {
  RandomStream random(5);
  for (int round = 0; round < 60; ++round) {
    Picture picture{.width = static_cast<int>(random.between(1, 300)),
                    .height = static_cast<int>(random.between(1, 40)),
                    .rgb = {}};
    const std::uint64_t change_one_in = std::uint64_t{1} << random.below(12);
    std::uint8_t value = 0;
    for (int i = 0; i < 3 * picture.width * picture.height; ++i) {
      if (random.below(change_one_in) == 0) value = static_cast<std::uint8_t>(random.below(256));
      picture.rgb.push_back(value);
    }
    const auto decoded = decode_png(write_flat_png(picture), {});
    ASSERT_TRUE(decoded.has_value()) << decoded.refusal().reason;
    EXPECT_EQ(decoded.value().width, picture.width);
    EXPECT_EQ(decoded.value().rgb, picture.rgb);
  }
}

TEST(WriteFlatPng, RefusesAPictureOfAnotherSizeThanItSays) {
  EXPECT_THAT(message_of([] {
                (void)write_flat_png({.width = 2, .height = 2, .rgb = {1, 2, 3}});
              }),
              testing::HasSubstr("3 values, 2 x 2"));
}

}  // namespace
}  // namespace tributary::data
