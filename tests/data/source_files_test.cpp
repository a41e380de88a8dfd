#include "data/loader/source_files.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/record/stored_record.h"
#include "tests/data/small_mixture.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Records of the second source are four times as long as those of the first.
TEST_F(LoaderTest, WeighsSourcesByTokens) {
  std::string few;
  std::string many;
  for (int i = 0; i < 40; ++i) few += line_of(str("s", i % 10, std::string(8, '.')));
  for (int i = 0; i < 40; ++i) many += line_of(str("l", i % 10, std::string(38, '.')));
  folder_.write("small.jsonl", few);
  folder_.write("large.jsonl", many);
  const auto count = [&](config::WeighBy weigh_by) {
    LoaderOptions chosen = options();
    chosen.data.weigh_by = weigh_by;
    chosen.data.sources = {source("small", 1.0), source("large", 1.0)};
    Loader loader(chosen, encoder_);
    std::array<double, 2> tokens{};
    std::array<double, 2> samples{};
    for (int i = 0; i < 125; ++i)
      for (const EncodedSample& sample : loader.next_batch()) {
        tokens[static_cast<std::size_t>(sample.source)] +=
            static_cast<double>(sample.tokens.size());
        samples[static_cast<std::size_t>(sample.source)] += 1;
      }
    return std::pair(samples[0] / samples[1], tokens[0] / tokens[1]);
  };
  EXPECT_NEAR(count(config::WeighBy::kSamples).first, 1, 0.15);
  EXPECT_NEAR(count(config::WeighBy::kTokens).first, 4, 0.7);
  EXPECT_NEAR(count(config::WeighBy::kTokens).second, 1, 0.2);
}

TEST_F(LoaderTest, NamesASourceWhoseLengthIsNotKnown) {
  folder_.write("small.jsonl", line_of("bad 1") + line_of("bad 2"));
  LoaderOptions chosen = options();
  chosen.data.weigh_by = config::WeighBy::kTokens;
  EXPECT_THAT(failure(chosen), AllOf(HasSubstr("data: no length of the source is known"),
                                     HasSubstr("2 records looked at, none good")));
}

/// The order of the samples is a matter of numbers alone, so it is the same from any container.
TEST_F(LoaderTest, GivesTheSameSamplesFromAnyContainer) {
  Loader lines(options(), encoder_);
  const auto expected = list(lines, 4);
  std::string array = "[";
  const auto file = open_record_file(folder_.at("small.jsonl"));
  for (std::int64_t i = 0; i < file->records(); ++i)
    array += (i == 0 ? "" : ",\n ") + file->read(i).value().json.dump();
  folder_.write("small.json", array + "]");
  LoaderOptions chosen = options();
  chosen.data.sources[0].path = folder_.at("small.json");
  Loader loader(chosen, encoder_);
  const auto without_key = [](std::vector<std::string> samples) {
    for (std::string& sample : samples) {
      const std::size_t key = sample.find(" /");
      sample.erase(key, sample.find(' ', key + 1) - key);
    }
    return samples;
  };
  EXPECT_EQ(without_key(list(loader, 4)), without_key(expected));
}

TEST_F(LoaderTest, EndsBeforeItStartsWhenNoRecordHasAForm) {
  folder_.write("small.jsonl",
                "{\"image\":\"a.png\",\"text\":\"a cat\"}\n{\"image\":\"b.png\",\"text\":\"b\"}\n");
  EXPECT_THAT(failure(options()),
              AllOf(HasSubstr("data: no record of the source can be read"),
                    HasSubstr("the first 2 are refused: "), HasSubstr("no_question"),
                    HasSubstr("`format` and `question` of source small")));
  LoaderOptions named = options();
  named.data.sources[0].format = "qeury";
  EXPECT_THAT(failure(named), AllOf(HasSubstr("data: no such form of records"),
                                    HasSubstr("expected: one of auto, messages, ")));
}

}  // namespace
}  // namespace tributary::data
