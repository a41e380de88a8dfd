#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

#include "data/loader/encode_sample.h"
#include "tests/data/small_mixture.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Ninety records, of which every third is too long, and ten short ones.
class TooLongTest : public LoaderTest {
 protected:
  void SetUp() override {
    LoaderTest::SetUp();
    std::string text;
    for (int i = 0; i < 90; ++i) text += line_of(str(i % 3 == 0 ? "long" : "l", i));
    folder_.write("large.jsonl", text);
  }
};

TEST_F(TooLongTest, AreLeftOutAndCountOnceAndNeverAsBad) {
  LoaderOptions chosen = options();
  chosen.data.bad_at_least = 0;
  chosen.data.bad_fraction = 0;
  chosen.quarantine_path = folder_.at("quarantine.jsonl");
  Loader loader(chosen, encoder_);
  for (const std::string& sample : list(loader, 60)) EXPECT_THAT(sample, Not(HasSubstr("long")));
  const LoaderState state = loader.state();
  ASSERT_GT(state.cursors[1], 180) << "each record was drawn twice at least";
  EXPECT_THAT(state.left_out, ElementsAre(0, 30));
  EXPECT_THAT(state.quarantined, IsEmpty());
  EXPECT_FALSE(std::ifstream(chosen.quarantine_path).good());
}

TEST_F(TooLongTest, AreCountedAlikeByAnyNumberOfThreadsAndParts) {
  Loader whole(options(1), encoder_);
  const auto expected = list(whole, 12);
  std::set<std::string> samples;
  std::int64_t left_out = 0;
  for (std::int64_t part = 0; part < 4; ++part) {
    LoaderOptions chosen = options(3);
    chosen.part = part;
    chosen.parts = 4;
    Loader loader(chosen, encoder_);
    for (const std::string& sample : list(loader, 12)) samples.insert(sample);
    left_out += loader.state().left_out[1];
  }
  EXPECT_EQ(samples, std::set(expected.begin(), expected.end()));
  EXPECT_EQ(left_out, whole.state().left_out[1]);
  EXPECT_GT(left_out, 10);
}

TEST_F(TooLongTest, CountGoesOnInARestoredState) {
  Loader first(options(), encoder_);
  (void)list(first, 5);
  const LoaderState state = loader_state_from_json(to_json(first.state()), "state.json");
  EXPECT_EQ(state, first.state());
  (void)list(first, 20);
  Loader fresh(options(), encoder_);
  fresh.restore(state);
  (void)list(fresh, 20);
  EXPECT_EQ(fresh.state(), first.state());
}

TEST_F(TooLongTest, AreRefusedBeforeTheRunOnRequest) {
  LoaderOptions chosen = options();
  chosen.data.too_long = config::TooLong::kRefuse;
  EXPECT_THAT(failure(chosen, ExitCode::kDataLimit),
              AllOf(HasSubstr("data: samples are too long"), HasSubstr("30 of 100"),
                    HasSubstr("large.jsonl:1: 9 tokens, limit 8\n"), HasSubstr("large.jsonl:4: "),
                    HasSubstr("and 20 more"), HasSubstr("raise batch.capacity_tokens")));
  folder_.write("large.jsonl", lines_of("l", 82));
  EXPECT_EQ(failure(chosen), "no failure");
}

TEST(MostTokens, AreAlsoLimitedByADynamicRope) {
  config::RunConfig run;
  run.batch.capacity_tokens = {100};
  config::BackboneConfig backbone;
  backbone.max_positions = 40;
  EXPECT_EQ(max_tokens_of(run, backbone).count, 100);
  backbone.dynamic_rope = true;
  EXPECT_EQ(max_tokens_of(run, backbone).count, 40);
  run.data.max_tokens = 30;
  EXPECT_EQ(max_tokens_of(run, backbone).count, 30);
}

TEST_F(TooLongTest, EndTheRunWhereTheWholeSourceIsTooLong) {
  std::string text;
  for (int i = 0; i < 9; ++i) text += line_of(str("long", i));
  folder_.write("large.jsonl", text);
  EXPECT_THAT(failure(options(), ExitCode::kDataLimit),
              AllOf(HasSubstr("data: no sample of the source is short enough"),
                    HasSubstr("large.jsonl"), HasSubstr("9 tokens, limit 8"),
                    HasSubstr("raise batch.capacity_tokens or data.max_tokens")));
  Loader loader(options(), encoder_);
  EXPECT_THAT([&] { (void)loader.look(); },
              testing::ThrowsMessage<Error>(HasSubstr("all 9 are too long")));
}

TEST_F(TooLongTest, AreNoneWhereTheModelCannotTakeTheMediaOfAWholeSource) {
  folder_.write("large.jsonl", line_of("loud one") + line_of("loud two"));
  Loader loader(options(), encoder_);
  EXPECT_THAT([&] { (void)loader.look(); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("data: the model cannot take the media of the source; where: "),
                        HasSubstr("large.jsonl:1 no_sound: 1 sounds"))));
  folder_.write("large.jsonl", line_of("loud one") + line_of("l2"));
  EXPECT_EQ(Loader(options(), encoder_).look().dropped, 1);
}

TEST_F(TooLongTest, AreNamedBeforeTheFirstStepWithKeysThatNothingReads) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += R"({"id":1,)" + line_of(str("s", i)).substr(1);
  folder_.write("small.jsonl", text);
  Loader loader(options(), encoder_);
  EXPECT_THAT(loader.look().findings,
              ElementsAre("source small: keys that nothing reads: id in 10 of 10 records looked at",
                          AllOf(HasSubstr("source large: samples that are too long are left out, "),
                                HasSubstr(" of 64 records looked at: "),
                                HasSubstr("large.jsonl:1 with 9 tokens, limit 8"))));
}

TEST_F(TooLongTest, AreEstimatedWithTheTokensOfTheOthers) {
  std::string text;
  for (int i = 0; i < 128; ++i) text += line_of(i % 4 < 2 ? "long" : "four");
  folder_.write("small.jsonl", text);
  folder_.write("large.jsonl", line_of("three") + line_of("bad") + line_of("long") + "{broken\n");
  LoaderOptions chosen = options();
  chosen.batch_samples = 1;
  const DataLook all = Loader(chosen, encoder_).look();
  EXPECT_EQ(all.dropped, 64 + 3) << "every second of 128 records is looked at";
  EXPECT_EQ(all.tokens, 64 * 4 + 5);
  chosen.data.sources[0].weight = 0;
  EXPECT_EQ(Loader(chosen, encoder_).look().dropped, 3) << "a source without weight is not read";
}

}  // namespace
}  // namespace tributary::data
