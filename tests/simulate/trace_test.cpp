#include "config/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "simulate/trace_of.h"
#include "tests/simulate/plan_case.h"

namespace tributary::simulate {
namespace {

config::Trace make_trace() {
  const TableCosts costs(true);
  return trace_of(simulate(vision_plan(), costs, small_cluster(8),
                           {.steps = 3, .samples = {.kind = SampleSource::Kind::kMixture}}),
                  "plan.json", "test");
}

TEST(Trace, ReadsBackWhatWasWritten) {
  config::Trace trace = make_trace();
  EXPECT_EQ(config::parse_trace(config::write_trace(trace), "trace.json"), trace);
  trace.summary.planned_step = {17};
  trace.summary.samples = "4096 tokens each";
  trace.summary.beyond_grid = {{"all_reduce of 2 ranks", "B", 1024, 4096},
                               {"backbone.block tp 1", "tokens", 100, 101}};
  const std::string text = config::write_trace(trace);
  EXPECT_EQ(config::parse_trace(text, "trace.json"), trace);
  const std::string flag = "\"outside_grid\":true";
  ASSERT_NE(text.find(flag), std::string::npos);
  std::string denied = text;
  denied.replace(denied.find(flag), flag.size(), "\"outside_grid\":false");
  EXPECT_THAT([&] { (void)config::parse_trace(denied, "trace.json"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "summary.outside_grid; found: false; expected: true where beyond_grid names")));
}

TEST(Trace, SaysThatWorkAheadHasNotSettled) {
  config::Plan plan = vision_plan();
  for (config::ModulePlan& module : plan.modules)
    if (module.name == "vision") module.placement = config::Placement::kFlow;
  // Encoders get ahead in every step, of a pool that is never full or one that soon is.
  for (const auto& [pool, unsettled] : {std::pair(1 << 20, true), std::pair(2, false)}) {
    const config::Trace trace = trace_of(simulate(plan, TableCosts(true), small_cluster(8),
                                                  {.network = {.pool_microbatches = pool}}),
                                         "plan.json", "test");
    const std::string text = config::write_trace(trace);
    EXPECT_EQ(config::parse_trace(text, "trace.json").summary.unsettled, unsettled);
    for (const std::string& each : {text, config::write_summary(trace)}) {
      const Json json = parse_json(each, "trace.json", {.max_bytes = 1 << 28, .max_depth = 16});
      EXPECT_EQ((json.contains("summary") ? json["summary"] : json)["unsettled"], unsettled);
    }
  }
}

TEST(Trace, IsOfTheChromeFormat) {
  const Json json = parse_json(config::write_trace(make_trace()), "trace.json",
                               {.max_bytes = 1 << 28, .max_depth = 16});
  ASSERT_TRUE(json["traceEvents"].is_array());
  int spans = 0;
  for (const Json& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    EXPECT_TRUE(phase == "X" || phase == "M" || phase == "C");
    if (phase != "X") continue;
    ++spans;
    EXPECT_TRUE(event["ts"].is_number() && event["dur"].is_number());
    EXPECT_GE(event["pid"].get<int>(), 0);
  }
  EXPECT_GT(spans, 100);
}

TEST(Trace, ShowsTheMedianStepAndSaysTheMean) {
  const config::TraceSummary summary = make_trace().summary;
  EXPECT_EQ(summary.step, summary.distribution.at("mean"));
  EXPECT_EQ(summary.shown_step(), summary.distribution.at("median"));
  EXPECT_NE(summary.step, summary.shown_step());
}

TEST(Trace, UsesAndPathAddUpToTheShownStep) {
  const config::Trace trace = make_trace();
  const Nanoseconds step = trace.summary.shown_step();
  for (const config::TraceLane& lane : trace.lanes) {
    Nanoseconds sum;
    for (const auto& [use, time] : lane.uses) sum += time;
    EXPECT_EQ(sum, step);
    EXPECT_EQ((lane.busy + lane.communication + lane.idle), step);
    Bytes bytes;
    for (const auto& [part, of] : lane.peak_parts) bytes += of;
    EXPECT_EQ(bytes, lane.peak);
  }
  Nanoseconds path;
  for (const auto& [kind, time] : trace.summary.critical_path) path += time;
  EXPECT_EQ(path, step);
}

TEST(Trace, NamesTheKeyOfWhatCannotBeRead) {
  Json json = parse_json(config::write_trace(make_trace()), "t", {.max_bytes = 1 << 28});
  json["summary"]["stpes"] = 1;
  json["summary"]["step_ns"] = -4;
  json["summary"]["unknown"] = {"memory", "speed"};
  json["traceEvents"] = Json::array({{{"ph", "X"}, {"name", "F0.0"}, {"pid", 99}}});
  EXPECT_THAT([&] { (void)config::parse_trace(json.dump(), "trace.json"); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("trace.json summary.step_ns"),
                                 testing::HasSubstr("did you mean steps?"),
                                 testing::HasSubstr("trace.json summary.unknown"),
                                 testing::HasSubstr("trace.json traceEvents.0.pid"))));
  EXPECT_THAT([] { (void)config::parse_trace(R"({"format": "x"})", "trace.json"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("expected: tributary.trace/1")));
}

}  // namespace
}  // namespace tributary::simulate
