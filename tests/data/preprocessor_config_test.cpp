#include "data/preprocess/preprocessor_config.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/preprocess/processor_file.h"
#include "data/preprocess/whisper.h"

namespace tributary::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class PreprocessorFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + "/" + name) << text;
  }
  [[nodiscard]] PreprocessorConfig read(std::optional<PixelLimits> limits = {}) const {
    return read_preprocessor_config(directory_, {}, limits);
  }

  std::string directory_ = testing::TempDir() + "preprocessor_" +
                           testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(PreprocessorFile, MayBeAbsent) {
  const PreprocessorConfig config = read(PixelLimits{100, 5000});
  EXPECT_EQ(config.factor(), 28);
  EXPECT_EQ(config.patch_width(), 1176);
  EXPECT_EQ(config.image, (PixelLimits{3136, 5000}));
  EXPECT_EQ(config.clip, config.image);
}

TEST_F(PreprocessorFile, GivesLimitsAndColoursOfThePublishedLayout) {
  write("preprocessor_config.json", R"({"min_pixels": 3136, "max_pixels": 12845056,
    "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
    "image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 1, 2], "image_processor_type": "x"})");
  const PreprocessorConfig config = read();
  EXPECT_EQ(config.image, (PixelLimits{3136, 12845056}));
  EXPECT_EQ(config.clip, config.image);
  EXPECT_THAT(config.mean, testing::ElementsAre(0.5F, 0.25F, 0.125F));
  EXPECT_THAT(config.deviation, testing::ElementsAre(0.5F, 1.0F, 2.0F));
}

TEST_F(PreprocessorFile, GivesLimitsOfTheLayoutOfTransformers5) {
  write("preprocessor_config.json", R"({"size": {"shortest_edge": 784, "longest_edge": 50176}})");
  write("video_preprocessor_config.json",
        R"({"size": {"shortest_edge": 800, "longest_edge": 9000}})");
  EXPECT_EQ(read().image, (PixelLimits{784, 50176}));
  EXPECT_EQ(read().clip, (PixelLimits{800, 9000}));
  EXPECT_EQ(read(PixelLimits{1000, 10000}).image, (PixelLimits{1000, 10000}));
  EXPECT_EQ(read(PixelLimits{1000, 10000}).clip, (PixelLimits{1000, 9000}));
}

TEST_F(PreprocessorFile, OfTransformers5HasThePartsInOneFileThatCounts) {
  write("processor_config.json", R"({"processor_class": "x",
    "image_processor": {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
                        "size": {"shortest_edge": 784, "longest_edge": 50176}},
    "video_processor": {"size": {"shortest_edge": 800, "longest_edge": 9000}}})");
  write("preprocessor_config.json", R"({"min_pixels": 3136, "image_mean": [0, 0, 0]})");
  write("video_preprocessor_config.json", R"({"min_pixels": 3136})");
  const PreprocessorConfig config = read();
  EXPECT_EQ(config.image, (PixelLimits{784, 50176}));
  EXPECT_EQ(config.clip, (PixelLimits{800, 9000}));
  EXPECT_THAT(config.mean, testing::Each(0.5F));
  EXPECT_THAT(config.deviation, testing::Each(0.5F));
}

TEST_F(PreprocessorFile, StandsAloneWhereTheFileOfTheProcessorHasNoParts) {
  write("processor_config.json", R"({"processor_class": "x"})");
  write("preprocessor_config.json", R"({"max_pixels": 9000})");
  EXPECT_EQ(read().image.max, 9000);
}

TEST_F(PreprocessorFile, NamesTheMemberThatIsWrong) {
  write("processor_config.json", R"({"image_processor": {"patch_size": 16}})");
  EXPECT_THAT([&] { (void)read(); },
              ThrowsMessage<Error>(HasSubstr("processor_config.json image_processor patch_size")));
  write("processor_config.json", R"({"image_processor": 16})");
  EXPECT_THAT([&] { (void)read(); }, ThrowsMessage<Error>(HasSubstr("are no JSON object")));
}

TEST_F(PreprocessorFile, IsMissedByAModelThatSees) {
  config::ModelConfig model;
  EXPECT_EQ(describe_missing_processor(directory_, model), "");
  model.vision.emplace();
  EXPECT_THAT(describe_missing_processor(directory_, model), HasSubstr("colours"));
  write("preprocessor_config.json", "{}");
  EXPECT_EQ(describe_missing_processor(directory_, model), "");
}

TEST_F(PreprocessorFile, OfASoundIsTheFeatureExtractor) {
  const config::AudioConfig model;
  write("preprocessor_config.json", R"({"sampling_rate": 8000})");
  EXPECT_EQ(read_sound_config(directory_, model).rate, 8000);
  write("processor_config.json", R"({"feature_extractor": {"sampling_rate": 24000}})");
  EXPECT_EQ(read_sound_config(directory_, model).rate, 24000);
}

TEST_F(PreprocessorFile, MustAgreeWithTheModel) {
  write("preprocessor_config.json", R"({"patch_size": 16})");
  EXPECT_THAT([&] { (void)read(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("image processor and model differ"),
                                         HasSubstr("preprocessor_config.json patch_size"),
                                         HasSubstr("found: 16"), HasSubstr("14"))));
}

TEST_F(PreprocessorFile, RefusesImpossibleValues) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"patch_size": "14"})", "patch_size"},
      {R"({"max_pixels": 0})", "max_pixels"},
      {R"({"size": {"longest_edge": 1.5}})", "size.longest_edge"},
      {R"({"image_mean": [1, 2]})", "image_mean"},
      {R"({"image_std": [1, 1, 0]})", "image_std"},
      {R"([1])", "no JSON object"},
      {R"({"min_pixels": 5000, "max_pixels": 4000})", "at least 5000 and at most 4000"},
      {R"({"patch_size": 14)", "preprocessor_config.json"},
  };
  for (const auto& [text, words] : cases) {
    write("preprocessor_config.json", text);
    EXPECT_THAT([&] { (void)read(); }, ThrowsMessage<Error>(HasSubstr(words))) << text;
  }
}

}  // namespace
}  // namespace tributary::data
