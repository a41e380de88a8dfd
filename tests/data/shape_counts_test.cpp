#include "data/loader/shape_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/loader/survey.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SampleShape shape_of(std::int64_t tokens, std::vector<Grid> images = {}) {
  return {.tokens = {tokens}, .target_tokens = {1}, .images = std::move(images), .videos = {}};
}

Survey survey_of(double weight, ShapeCounts shapes) {
  Survey survey;
  survey.path = "a.jsonl";
  survey.weight = weight;
  survey.shapes = std::move(shapes);
  return survey;
}

TEST(ShapeOrder, TellsApartWhateverDiffers) {
  SampleShape clip = shape_of(5);
  clip.videos = {{1, 2, 2}};
  ShapeCounts counts;
  for (const SampleShape& shape :
       {shape_of(5), shape_of(5, {{1, 2, 2}}), shape_of(5, {{1, 2, 4}}),
        shape_of(5, {{1, 2, 2}, {1, 2, 2}}), clip, shape_of(6), shape_of(5)})
    ++counts[shape];
  EXPECT_EQ(counts.size(), 6U);
  EXPECT_EQ(counts[shape_of(5)], 2);
}

TEST(MixShapes, CountsSamplesWhereAllAreDrawnEquallyOften) {
  const std::vector<Survey> surveys{survey_of(2, {{shape_of(5), 3}, {shape_of(9), 1}}),
                                    survey_of(0, {{shape_of(7), 50}}),
                                    survey_of(1, {{shape_of(5), 2}})};
  const config::ShapeHistogram histogram = mix_shapes(surveys, "run.yaml");
  EXPECT_EQ(histogram.source, "run.yaml");
  EXPECT_EQ(histogram.bins, (std::vector<config::ShapeBin>{{5, shape_of(5)}, {1, shape_of(9)}}));
}

TEST(MixShapes, GivesEachFileTheShareOfItsWeight) {
  const std::vector<Survey> surveys{survey_of(3, {{shape_of(5), 1}}),
                                    survey_of(1, {{shape_of(7), 2}, {shape_of(9), 1}})};
  // A sample of the first file is drawn nine times as often as one of the second.
  EXPECT_EQ(mix_shapes(surveys, "").bins,
            (std::vector<config::ShapeBin>{
                {9000, shape_of(5)}, {2000, shape_of(7)}, {1000, shape_of(9)}}));
  // Weights far apart stay within what a histogram may hold, and no shape is lost.
  const std::vector<Survey> far_apart{survey_of(1e9, {{shape_of(5), 1}}),
                                      survey_of(1e-9, {{shape_of(7), 1}})};
  EXPECT_EQ(
      mix_shapes(far_apart, "").bins,
      (std::vector<config::ShapeBin>{{std::int64_t{1} << 40, shape_of(5)}, {1, shape_of(7)}}));
}

TEST(MixShapes, RefusesAFileWithoutSamples) {
  Survey empty = survey_of(1, {});
  empty.surveyed = 4;
  empty.too_long = 3;
  empty.bad = {{"bad_json", 1}};
  empty.max_tokens = {30};
  try {
    (void)mix_shapes(std::vector<Survey>{empty}, "");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kDataLimit);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("data: no sample to count shapes of; where: a.jsonl"),
                      HasSubstr("4 records inspected: 1 bad, 3 longer than 30 tokens")));
  }
}

}  // namespace
}  // namespace tributary::data
