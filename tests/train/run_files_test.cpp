#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <unistd.h>

#include "core/error.h"
#include "train/metrics/console.h"
#include "train/run/json_lines.h"
#include "train/run/stop_request.h"
#include "train/run/train_state.h"

namespace tributary::train {
namespace {

using testing::HasSubstr;

class RunFiles : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "/run_files_" + std::to_string(getpid()) + ".jsonl";
  void TearDown() override { std::filesystem::remove(path_); }

  std::string content() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(RunFiles, KeepTheLinesUpToAStep) {
  {
    JsonLines lines(path_);
    for (int step = 1; step <= 5; ++step) lines.append({{"step", step}});
  }
  std::ofstream(path_, std::ios::app) << "{\"step\": 6, \"lo";  // killed while writing
  cut_lines_after(path_, 3);
  EXPECT_EQ(content(), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  JsonLines(path_).append({{"step", 4}});
  EXPECT_THAT(content(), testing::EndsWith("{\"step\":3}\n{\"step\":4}\n"));
}

TEST_F(RunFiles, NameTheLineThatHasAnotherShape) {
  for (const auto& [line, found] :
       {std::pair{"[1, 2]", "found: array; expected: an object"},
        std::pair{"7", "found: number; expected: an object"},
        std::pair{R"({"step": "x"})", "found: \"x\"; expected: a whole"},
        std::pair{R"({"step": 1.5})", "found: 1.5; expected: a whole"},
        std::pair{R"({"step": null})", "found: null"}, std::pair{"{\"step\"", "json"}}) {
    SCOPED_TRACE(line);
    std::ofstream(path_) << "{\"step\": 1}\n" << line << "\n";
    try {
      cut_lines_after(path_, 1);
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kInput);
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(path_ + ":2"), HasSubstr(found)));
    }
  }
}

TEST_F(RunFiles, WriteThroughNoLink) {
  const std::string outside = path_ + ".outside";
  const std::string part = path_ + ".part";
  std::ofstream(outside) << "{\"step\": 1}\n{\"step\": 2}\n";
  std::filesystem::create_symlink(outside, path_);
  EXPECT_THAT([&] { JsonLines lines(path_); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr(path_ + "; found: a symbolic link"), HasSubstr("remove the link"))));
  std::filesystem::create_symlink(outside, part);
  EXPECT_THAT([&] { cut_lines_after(path_, 1); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("a symbolic link where a file is written; where: " + part)));
  std::ifstream in(outside);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "{\"step\": 1}\n{\"step\": 2}\n");
  std::filesystem::remove(outside);
  std::filesystem::remove(part);
}

TEST_F(RunFiles, WriteNoNumberThatIsNotFinite) {
  StepMetrics metrics;
  metrics.loss = std::nan("");
  metrics.grad_norm = INFINITY;
  metrics.by_source = {{.sum = 3, .targets = 2}, {.sum = 0, .targets = 0}};
  const Json line = to_json(metrics, {"first", "second"});
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
  EXPECT_EQ(line["loss_by_source"], (Json{{"first", 1.5}}));
  EXPECT_FALSE(line.contains("norms"));
}

TEST_F(RunFiles, HaveTheNormsThatAStepMeasured) {
  StepMetrics metrics;
  metrics.norms = {{.module = "vision", .gradient = 0.5, .update = 0.25, .parameters = 2},
                   {.module = "backbone", .gradient = INFINITY}};
  EXPECT_EQ(to_json(metrics, {})["norms"], Json::parse(R"({
    "gradient": {"vision": 0.5, "backbone": null},
    "update": {"vision": 0.25}, "parameters": {"vision": 2.0}})"));
}

TEST(FlowUse, SaysAtWhichRatesEncodersAndTheBackboneWork) {
  // Two replicas of two ranks each read 6 and 4 objects and encode 2 themselves.
  const FlowUse use{.objects = 20,
                    .encoded_here = 4,
                    .starved = 1,
                    .encoding = 1,
                    .encoders = 3,
                    .made = 15,
                    .encoder_busy = 4.5,
                    .needed = 12,
                    .takers = 4};
  EXPECT_EQ(use.encoder_rate(), 10);                    // 15 in 1.5 s of all three
  EXPECT_EQ(use.backbone_rate(/*step_seconds=*/2), 8);  // 12 in 2 s less 0.5 s
  EXPECT_EQ(FlowUse().encoder_rate(), std::nullopt);
  EXPECT_EQ(FlowUse().backbone_rate(2), std::nullopt);
}

TEST_F(RunFiles, NameAFileThatCannotBeOpened) {
  EXPECT_THAT([] { JsonLines lines("/nowhere/metrics.jsonl"); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("resource error: train: file of the run cannot be opened"),
                  HasSubstr("/nowhere/metrics.jsonl"), HasSubstr("No such file"))));
}

StepMetrics make_metrics(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 1.25;
  metrics.tokens = 500;
  metrics.seconds.forward = 0.5;
  return metrics;
}

TEST(Console, PrintsPlainLinesIntoALog) {
  std::ostringstream out;
  Console console(out, /*is_terminal=*/false, /*steps=*/100, /*every=*/10);
  for (int step = 1; step <= 25; ++step) console.show(make_metrics(step));
  EXPECT_EQ(out.str().find_first_of("\r\x1b"), std::string::npos);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);  // 1, 10, 20
  EXPECT_THAT(text, HasSubstr("step  20/100  loss 1.2500"));
  EXPECT_THAT(text, HasSubstr("1000 tokens/s  40 s left"));
}

TEST(Console, WritesOverOneLineOnATerminal) {
  std::ostringstream out;
  Console console(out, /*is_terminal=*/true, 100, 10);
  for (int step = 1; step <= 3; ++step) console.show(make_metrics(step));
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 3);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
  console.say("saved");
  EXPECT_THAT(out.str(), testing::EndsWith("left\nsaved\n"));
}

TEST(Console, KeepsALineEveryFewStepsOnATerminal) {
  std::ostringstream out;
  Console console(out, /*is_terminal=*/true, 100, 10);
  for (int step = 1; step <= 25; ++step) console.show(make_metrics(step));
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, testing::ContainsRegex("step  10/100[^\r\n]*left\n\r"));
}

TEST(Console, GivesMeansOfTheLastSteps) {
  std::ostringstream out;
  Console console(out, /*is_terminal=*/false, /*steps=*/1000, /*every=*/100);
  for (int step = 1; step <= 100; ++step) {
    StepMetrics metrics = make_metrics(step);
    metrics.loss = step <= 50 ? 100 : step % 2;      // what is long ago does not count
    if (step == 99) metrics.seconds.forward = 30.5;  // a stall
    console.show(metrics);
  }
  // 25000 tokens in 55 s; 900 steps of (49 x 0.5 + 2) / 50 s: the stall counts as four steps
  EXPECT_THAT(out.str(), HasSubstr("step  100/1000  loss 0.0000 (last 50: 0.5000)  lr "));
  EXPECT_THAT(out.str(), HasSubstr("  455 tokens/s  7 min 57 s left"));
}

TEST(Console, ShowsWhatIsNoNumberWithoutASign) {
  std::ostringstream out;
  Console console(out, /*is_terminal=*/false, 100, 10);
  StepMetrics metrics = make_metrics(1);
  metrics.loss = -std::nan("");
  metrics.grad_norm = -std::nan("");
  metrics.skip_reason = "not finite: loss";
  console.show(metrics);
  EXPECT_THAT(out.str(), HasSubstr("loss nan (last 1: nan)"));
  EXPECT_THAT(out.str(), HasSubstr("norm nan  1000 tokens/s"));
}

TEST_F(RunFiles, GiveTheirLastWholeLines) {
  EXPECT_TRUE(last_lines(path_, 3).empty());
  {
    JsonLines lines(path_);
    for (int step = 1; step <= 30000; ++step)
      lines.append({{"step", step}, {"text", std::string(50, 'x')}});
  }
  std::ofstream(path_, std::ios::app) << "{\"step\": 30001, \"lo";
  const std::vector<Json> lines = last_lines(path_, 2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["step"], 29999);
  EXPECT_EQ(lines[1]["step"], 30000);
  EXPECT_LT(last_lines(path_, 30000).size(), 30000u);
}

TEST(DescribeSeconds, ReadsAsAPersonSaysIt) {
  EXPECT_EQ(describe_seconds(41.4), "41 s");
  EXPECT_EQ(describe_seconds(200), "3 min 20 s");
  EXPECT_EQ(describe_seconds(7500), "2 h 05 min");
}

TEST(StopRequest, IsAskedForByASignal) {
  const StopRequest stop(std::chrono::seconds(30));
  EXPECT_FALSE(stop.asked());
  std::raise(SIGTERM);
  EXPECT_TRUE(stop.asked());
}

TEST(StopRequestDeathTest, EndsAtOnceOnTheSecondSignal) {
  EXPECT_EXIT(
      {
        const StopRequest stop(std::chrono::seconds(30));
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::ExitedWithCode(128 + SIGINT), "second signal ends at once");
}

TEST(StopRequestDeathTest, EndsWhenTheGraceAfterSigtermIsOver) {
  EXPECT_EXIT(
      {
        const StopRequest stop(std::chrono::seconds(1));
        std::raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::minutes(1));  // a step that never ends
      },
      testing::ExitedWithCode(128 + SIGTERM), "the time that SIGTERM leaves is over");
}

TEST(StopRequestDeathTest, GivesAPersonAllTheTime) {
  EXPECT_EXIT(
      {
        const StopRequest stop(std::chrono::seconds(1));
        std::raise(SIGINT);
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        _exit(stop.asked() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "stopping after this step");
}

TEST(TrainState, ReadsBackWhatItWrote) {
  TrainState state;
  state.step = 12;
  state.optimizer_steps = 11;
  state.skipped_steps = 1;
  state.skips_in_a_row = 1;
  state.tokens = 12345;
  state.target_tokens = 99;
  state.train_seconds = 0.1 + 0.2;
  state.wall_seconds = 1.0 / 3;
  state.loader.seed = 9;
  state.loader.next_index = 96;
  const Json json = to_json(state);
  const TrainState again = train_state_from_json(parse_json(json.dump(), "state"), "state");
  EXPECT_EQ(to_json(again), json);
  EXPECT_EQ(again.loader, state.loader);
  EXPECT_EQ(again.train_seconds, state.train_seconds);
}

TEST(TrainState, NamesWhatIsMissing) {
  Json json = to_json(TrainState{});
  json.erase("optimizer_steps");
  EXPECT_THAT([&] { (void)train_state_from_json(json, "step-12/extra/global.json"); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("state of the run cannot be read"),
                  HasSubstr("step-12/extra/global.json"), HasSubstr("optimizer_steps"))));
}

}  // namespace
}  // namespace tributary::train
