#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <tuple>

#include "app/cli/verb.h"
#include "config/plan/plan.h"
#include "config/run/read_run_config.h"
#include "config/trace/trace.h"
#include "core/text.h"
#include "tests/config/temporary_folder.h"

namespace tributary::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Outcome {
  int exit_code;
  std::string output;
  std::string errors;
};

Outcome run(std::vector<std::string> words) {
  words.insert(words.begin(), "tributary");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int exit_code = run_command_line(static_cast<int>(arguments.size()), arguments.data());
  const std::string output = ::testing::internal::GetCapturedStdout();
  return {exit_code, output, ::testing::internal::GetCapturedStderr()};
}

const std::string kRun =
    "model: {path: m}\ndata:\n  sources: [{name: shapes, path: shapes.jsonl}]\n";

TEST(ConfigCommand, PrintsTheResolvedConfiguration) {
  const TemporaryFolder folder;
  const std::string path = folder.write("run.yaml", kRun);
  const Outcome outcome = run({"config", path, "run.steps=12"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(config::parse_run_config(outcome.output, "output"),
            config::read_run_config(path, std::vector<std::string>{"run.steps=12"}));
}

TEST(ConfigCommand, PrintsTheReferenceOfEveryKey) {
  EXPECT_EQ(run({"config", "--keys"}).output, config::describe_keys());
}

TEST(ConfigCommand, EndsWithTwoOnABadFile) {
  const TemporaryFolder folder;
  const Outcome outcome = run({"config", folder.write("run.yaml", kRun + "run: {stepz: 1}\n")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("run.yaml:4 \"run.stepz\""), HasSubstr("did you mean run.steps?")));
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(run({"config"}).exit_code, 2);
}

TEST(ReportCommand, WritesThePageIntoTheRunDirectoryOrElsewhere) {
  const TemporaryFolder folder;
  folder.write("demo/config.yaml", kRun);
  folder.write("demo/metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n");
  EXPECT_EQ(run({"report", folder.path("demo")}).output, folder.path("demo/report.html") + "\n");
  EXPECT_EQ(run({"report", folder.path("demo"), "-o", folder.path("page.html")}).exit_code, 0);
  for (const char* name : {"demo/report.html", "page.html"}) {
    std::ifstream file(folder.path(name));
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(page.starts_with("<!doctype html>")) << name;
    EXPECT_TRUE(page.ends_with("</html>\n")) << name;
  }
}

TEST(ReportCommand, RefusesThePredictionOfAnotherPlan) {
  const TemporaryFolder folder;
  folder.write("demo/config.yaml", kRun);
  folder.write("demo/metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n");
  config::Plan plan = config::read_plan(str(TRIB_SOURCE_DIR, "/configs/plans/demo_pipeline.json"));
  config::Trace trace;
  const auto outcome_of = [&](const std::string& digest) {
    trace.summary.plan_digest = digest;
    folder.write("trace.json", config::write_trace(trace));
    return run({"report", folder.path("demo"), "--predicted", folder.path("trace.json")});
  };
  const std::string ran = config::plan_digest(plan);
  EXPECT_THAT(outcome_of(ran).errors, HasSubstr("does not say its plan")) << "no plan.json yet";
  // Predictions in a plan are not part of what it decides.
  plan.predicted.step = Nanoseconds{123};
  folder.write("demo/plan.json", config::write_plan(plan));
  EXPECT_EQ(outcome_of(ran).errors, "");
  EXPECT_EQ(outcome_of(ran).exit_code, 0);
  EXPECT_THAT(outcome_of("").errors, HasSubstr("does not say its plan"));
  plan.batch.microbatches += 1;
  const Outcome other = outcome_of(config::plan_digest(plan));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, AllOf(HasSubstr("report: prediction is of another plan"),
                                  HasSubstr("expected: " + ran), HasSubstr("tributary simulate")));
}

TEST(ReportCommand, SetsAnotherRunBesideOrSaysWhyNot) {
  const TemporaryFolder folder;
  const std::string line = "{\"step\": 1, \"loss\": 2.5}\n";
  for (const std::string name : {"demo", "other", "bare", "empty"})
    folder.write(name + "/config.yaml", kRun);
  folder.write("demo/metrics.jsonl", line);
  folder.write("other/metrics.jsonl", line);
  folder.write("empty/metrics.jsonl", "{\"step\": 1, \"lo");
  const auto outcome_of = [&](const std::string& name, const std::string& against) {
    return run({"report", folder.path(name), "--against", folder.path(against)});
  };
  EXPECT_EQ(outcome_of("demo", "other").exit_code, 0);
  std::ifstream file(folder.path("demo/report.html"));
  EXPECT_THAT((std::string{std::istreambuf_iterator<char>(file), {}}),
              HasSubstr("<h2>Against other</h2>"));
  const std::vector<std::tuple<std::string, std::string, std::string>> wrong{
      {"demo", "none", "report: no run in this directory; where: " + folder.path("none/")},
      {"demo", "bare", "report: the run has no metrics; where: " + folder.path("bare/metrics")},
      {"demo", "empty", "report: the run has no metrics; where: " + folder.path("empty/metrics")},
      {"empty", "demo", "report: the run has no metrics; where: " + folder.path("empty/metrics")},
      {"demo", "demo/.", "report: a run against itself; where: --against"},
      {"demo/metrics.jsonl", "other", "report: --against beside a trace"}};
  for (const auto& [name, against, words] : wrong) {
    const Outcome outcome = outcome_of(name, against);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_THAT(outcome.errors, HasSubstr(words));
  }
}

TEST(ReportCommand, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const Outcome missing = run({"report", folder.path("none")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.errors, HasSubstr("no run in this directory"));
  folder.write("config.yaml", kRun);
  folder.write("metrics.jsonl", "");
  const Outcome unwritable = run({"report", folder.path(), "-o", folder.path("no/page.html")});
  EXPECT_EQ(unwritable.exit_code, 5);
  EXPECT_THAT(unwritable.errors, AllOf(HasSubstr("file cannot be written"),
                                       HasSubstr("no/page.html"), HasSubstr("No such file")));
  EXPECT_EQ(run({"report", folder.path(), "--examples", "-1"}).exit_code, 2);
}

}  // namespace
}  // namespace tributary::app
