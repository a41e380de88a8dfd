#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/error.h"
#include "core/sha256.h"
#include "data/loader/data_order.h"
#include "data/loader/loader.h"
#include "data/record/record.h"
#include "tests/data/small_mixture.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(LoaderTest, CountsNoBadRecordAnewAfterARestart) {
  const auto parts = [&] {
    std::vector<std::unique_ptr<Loader>> loaders;
    for (const int part : {0, 1}) {
      LoaderOptions chosen = options();
      chosen.part = part;
      chosen.parts = 2;
      loaders.push_back(std::make_unique<Loader>(chosen, encoder_));
    }
    return loaders;
  };
  const auto total = [](const std::vector<std::unique_ptr<Loader>>& loaders) {
    LoaderState sum = loaders[0]->state();
    for (const QuarantinedRecord& bad : loaders[1]->state().quarantined)
      sum.quarantined.push_back(bad);
    std::ranges::sort(sum.quarantined);
    sum.quarantined.erase(std::ranges::unique(sum.quarantined).begin(), sum.quarantined.end());
    return sum;
  };
  auto loaders = parts();
  for (auto& loader : loaders) (void)list(*loader, 60);
  const LoaderState saved = total(loaders);
  EXPECT_THAT(saved.quarantined, ElementsAre(QuarantinedRecord{{1, 50}, "too_ugly"},
                                             QuarantinedRecord{{1, 51}, "bad_json"}));
  loaders = parts();
  for (auto& loader : loaders) loader->restore(saved);
  EXPECT_EQ(total(loaders).quarantined, saved.quarantined) << "as if it had not been restarted";
  for (auto& loader : loaders) (void)list(*loader, 60);
  EXPECT_EQ(total(loaders).quarantined, saved.quarantined)
      << "what is known to be bad is not found again";
}

TEST_F(LoaderTest, QuarantinesABadRecordOnceAndReplacesIt) {
  LoaderOptions chosen = options();
  chosen.quarantine_path = folder_.at("quarantine.jsonl");
  Loader loader(chosen, encoder_);
  for (const std::string& sample : list(loader, 60)) EXPECT_THAT(sample, Not(HasSubstr("bad")));
  const LoaderState state = loader.state();
  EXPECT_THAT(state.quarantined,
              testing::UnorderedElementsAre(QuarantinedRecord{{1, 50}, "too_ugly"},
                                            QuarantinedRecord{{1, 51}, "bad_json"}));
  EXPECT_THAT(count_reasons(state.quarantined),
              ElementsAre(testing::Pair("bad_json", 1), testing::Pair("too_ugly", 1)));
  std::ifstream in(chosen.quarantine_path);
  std::set<std::string> codes;
  std::set<std::string> beginnings;
  for (std::string line; std::getline(in, line);) {
    const Json entry = parse_json(line, "quarantine");
    codes.insert(entry.at("code"));
    EXPECT_THAT(entry.at("key").get<std::string>(), HasSubstr("large.jsonl:5"));
    EXPECT_EQ(entry.at("source"), 1);
    EXPECT_GT(entry.at("offset").get<int>(), 0);
    beginnings.insert(entry.at("beginning_sha256"));
  }
  EXPECT_THAT(codes, ElementsAre("bad_json", "too_ugly"));
  EXPECT_THAT(beginnings, testing::Contains(sha256("{broken").substr(0, 16)));
  EXPECT_EQ(beginnings.size(), 2);
}

TEST_F(LoaderTest, StopsWhenTooManyRecordsAreBad) {
  std::string text = lines_of("l", 60);
  for (int i = 0; i < 20; ++i) text += line_of(str("bad", i));
  folder_.write("large.jsonl", text);
  LoaderOptions chosen = options();
  chosen.quarantine_path = folder_.at("quarantine.jsonl");
  chosen.data.bad_at_least = 12;
  EXPECT_THAT(failure(chosen, ExitCode::kDataLimit),
              AllOf(HasSubstr("input error: data: too many bad samples"), HasSubstr("13 of "),
                    HasSubstr("too_ugly 13"), HasSubstr("0.1 % (data.bad_fraction)"),
                    HasSubstr("12 (data.bad_at_least)"), HasSubstr("quarantine.jsonl")));
  chosen.data.bad_at_least = 20;
  EXPECT_EQ(failure(chosen), "no failure");
  chosen.data.bad_at_least = 3;
  chosen.data.bad_fraction = 0.9;
  EXPECT_EQ(failure(chosen), "no failure");
}

TEST_F(LoaderTest, StopsWhenNoReplacementIsGood) {
  std::string text;
  for (int i = 0; i < 9; ++i) text += line_of(str("bad", i));
  folder_.write("large.jsonl", text);
  LoaderOptions chosen = options();
  chosen.data.bad_fraction = 1;
  EXPECT_THAT(failure(chosen, ExitCode::kDataLimit),
              AllOf(HasSubstr("no good record found in place of a bad one"),
                    HasSubstr("101 bad records in a row"), HasSubstr("text is bad")));
}

TEST_F(LoaderTest, RefusesASourceThatIsMostlyBad) {
  LoaderOptions chosen = options();
  chosen.data.bad_at_least = 10;
  folder_.write("large.jsonl", lines_of("l", 60));
  folder_.write("small.jsonl", lines_of("s", 2) + line_of("bad 1") + line_of("bad 2"));
  EXPECT_EQ(failure(chosen), "no failure") << "half of it is borne";
  folder_.write("small.jsonl",
                lines_of("s", 2) + line_of("bad 1") + line_of("bad 2") + line_of("bad 3"));
  EXPECT_THAT(failure(chosen, ExitCode::kDataLimit),
              AllOf(HasSubstr("data: too many bad samples"), HasSubstr("small.jsonl"),
                    HasSubstr("3 of 5 of the source: too_ugly 3"),
                    HasSubstr("at most half of the records of a source")));
  chosen.data.bad_fraction = 0.6;
  EXPECT_EQ(failure(chosen), "no failure") << "data.bad_fraction allows it";
}

}  // namespace
}  // namespace tributary::data
