#include "app/report/compare_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/chart_data.h"
#include "app/report/write_report.h"
#include "core/error.h"

namespace tributary::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Steps `first` to `last` with a loss of `loss` / step, `seconds` a step and 100 tokens in each.
RunRecord run_of(const std::string& name, std::int64_t first, std::int64_t last, double loss,
                 double seconds) {
  RunRecord run;
  run.name = name;
  run.directory = "runs/" + name;
  for (std::int64_t i = first; i <= last; ++i) {
    StepRecord step;
    step.step = i;
    step.loss = loss / static_cast<double>(i);
    step.seconds = {{"forward", seconds / 4}, {"backward", 3 * seconds / 4}};
    step.tokens_per_second = 100 / seconds;
    run.steps.push_back(step);
  }
  return run;
}

TEST(CompareRuns, FindsNoDifferenceBetweenEqualRuns) {
  const RunRecord run = run_of("a", 1, 200, 3, 0.5);
  const RunComparison found = compare_runs(run, run_of("b", 1, 200, 3, 0.5));
  EXPECT_EQ(found.common_steps, 200);
  ASSERT_TRUE(found.loss && found.seconds && found.tokens_per_second);
  EXPECT_EQ(found.loss->own_mean, found.loss->other_mean);
  EXPECT_EQ(found.loss->largest, 0);
  EXPECT_EQ(found.seconds->min, 1);
  EXPECT_EQ(found.seconds->max, 1);
  EXPECT_THAT(found.keys, IsEmpty());
}

TEST(CompareRuns, ComparesTheStepsThatBothHave) {
  RunRecord run = run_of("a", 1, 300, 4, 0.5);
  RunRecord other = run_of("b", 51, 250, 2, 0.25);
  run.steps[99].loss = 9;       // step 100
  run.steps[249].loss.reset();  // step 250 was skipped
  other.steps.back().skipped = true;
  run.steps[199].seconds = {{"data", 2}};  // step 200 stalled
  const RunComparison found = compare_runs(run, other);
  EXPECT_EQ(found.common_steps, 200);
  ASSERT_TRUE(found.loss && found.seconds && found.tokens_per_second);
  EXPECT_EQ(found.loss->steps, 199);
  EXPECT_EQ(found.loss->last_steps, 100);
  EXPECT_EQ(found.loss->first_of_last, 150);
  EXPECT_EQ(found.loss->last, 249);
  EXPECT_NEAR(found.loss->own_mean, 2 * found.loss->other_mean, 1e-12);
  EXPECT_EQ(found.loss->largest_at, 100);
  EXPECT_NEAR(found.loss->largest, 9 - 0.02, 1e-12);
  EXPECT_EQ(found.loss->own_there, 9);
  EXPECT_EQ(found.seconds->steps, 180);  // without the first tenth
  EXPECT_EQ(found.seconds->own_median, 0.5);
  EXPECT_EQ(found.seconds->other_median, 0.25);
  EXPECT_EQ(found.seconds->median, 2);
  EXPECT_EQ(found.seconds->min, 2);
  EXPECT_EQ(found.seconds->max, 8);
  EXPECT_EQ(found.tokens_per_second->median, 0.5);
}

TEST(CompareRuns, TakesTheMeanOfTwoMiddleValues) {
  const RunRecord other = run_of("b", 1, 4, 1, 1);
  RunRecord run = other;
  for (int i = 0; i < 4; ++i) run.steps[i].seconds = {{"data", std::vector{9., 1., 2., 4.}[i]}};
  EXPECT_EQ(compare_runs(run, other).seconds->median, 3);
}

TEST(CompareRuns, LeavesOutWhatNoStepHasInBothRuns) {
  RunRecord other = run_of("b", 11, 20, 1, 1);
  RunComparison found = compare_runs(run_of("a", 1, 10, 1, 1), other);
  EXPECT_EQ(found.common_steps, 0);
  EXPECT_FALSE(found.loss || found.seconds || found.tokens_per_second);
  for (StepRecord& step : other.steps) {
    step.loss.reset();
    step.tokens_per_second.reset();
  }
  found = compare_runs(run_of("a", 1, 15, 1, 1), other);
  EXPECT_FALSE(found.loss || found.tokens_per_second);
  EXPECT_EQ(found.seconds->steps, 5);
}

TEST(CompareRuns, ListsTheKeysThatDiffer) {
  RunRecord run = run_of("a", 1, 1, 1, 1);
  RunRecord other = run_of("b", 1, 1, 1, 1);
  run.config =
      "# a\nrun:\n  steps: 900\n  seed: 7\ndata:\n  sources:\n    - {name: shapes, weight: 1}\n"
      "    - {name: text, weight: 2}\nmodel:\n  freeze: []\n  dtype: float32\n";
  other.config =
      "run: {steps: 9e2, seed: 8}\ndata:\n  sources:\n    - {name: shapes, weight: 3}\n"
      "model: {freeze: [vision], dtype: \"float32\"}\nparallel: {dp: 2}\n";
  const auto keys = [&] { return compare_runs(run, other).keys; };
  EXPECT_THAT(keys(), ElementsAre(KeyDifference{"data.sources.0.weight", "1", "3"},
                                  KeyDifference{"data.sources.1.name", "text", std::nullopt},
                                  KeyDifference{"data.sources.1.weight", "2", std::nullopt},
                                  KeyDifference{"model.freeze", "[]", "[\"vision\"]"},
                                  KeyDifference{"parallel.dp", std::nullopt, "2"},
                                  KeyDifference{"run.seed", "7", "8"}));
  other.config = "run: {steps: 1\n";
  try {
    (void)keys();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    EXPECT_THAT(error.what(), HasSubstr("runs/b/config.yaml"));
  }
}

TEST(CompareRuns, TellsRunsOfOneNameApartByTheirDirectories) {
  const RunRecord run = run_of("a", 1, 1, 1, 1);
  RunRecord other = run;
  other.directory = "elsewhere/a";
  const RunComparison found = compare_runs(run, other);
  EXPECT_EQ(found.own_name, "runs/a");
  EXPECT_EQ(found.other_name, "elsewhere/a");
}

TEST(LossCurves, HavePiecesOfTheSameNumberOfSteps) {
  const RunRecord run = run_of("a", 1, 1000, 1, 1);
  const Json curves = loss_curves(run, compare_runs(run, run_of("b", 501, 530, 1, 1)), 100);
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[0]["step"].size(), 100U);
  EXPECT_EQ(curves[1]["name"], "b");
  EXPECT_EQ(curves[1]["step"], Json({510, 520, 530}));
  EXPECT_EQ(curves[1]["loss"].size(), 3U);
  EXPECT_EQ(curves[1]["steps_per_point"], 10);
}

TEST(WriteReport, SetsASecondRunBesideTheFirst) {
  RunRecord run = run_of("one", 1, 120, 2, 0.5);
  RunRecord other = run_of("<two>", 1, 150, 1, 0.25);
  run.config = "run: {seed: 7}\n";
  other.config = "run: {seed: \"<8>\"}\n";
  const RunComparison comparison = compare_runs(run, other);
  EXPECT_THAT(
      write_report(run, {}, nullptr, &comparison),
      AllOf(HasSubstr("<h2>Against &lt;two&gt;</h2>"), HasSubstr("<a href=\"#against\">"),
            HasSubstr("one has steps 1 to 120, &lt;two&gt; has steps 1 to 150: 120 in common"),
            HasSubstr("mean of the last 100 common steps<br><small>steps 21 to 120</small>"),
            HasSubstr("max |difference| 1<"), HasSubstr("500.0 ms"), HasSubstr("ratio 2 (2 to 2)"),
            HasSubstr("400 tokens/s"), HasSubstr("ratio 0.5 (0.5 to 0.5)"),
            HasSubstr("run.seed</td><td class=\"mono\">7</td><td class=\"mono\">&lt;8&gt;</td>"),
            Not(HasSubstr("<two>"))));
  EXPECT_THAT(write_report(run), Not(HasSubstr("id=\"against\"")));
  run.steps.erase(run.steps.begin() + 3, run.steps.end());
  other.steps.erase(other.steps.begin(), other.steps.begin() + 3);
  other.config = run.config;
  const RunComparison apart = compare_runs(run, other);
  EXPECT_THAT(write_report(run, {}, nullptr, &apart),
              AllOf(HasSubstr("0 in common"), HasSubstr("no loss and no time for the same step"),
                    HasSubstr("No key of the two configurations differs")));
}

}  // namespace
}  // namespace tributary::app
