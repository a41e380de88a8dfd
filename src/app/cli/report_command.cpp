#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/output_file.h"
#include "app/report/write_report.h"
#include "config/plan/plan.h"
#include "core/error.h"
#include "core/log.h"

namespace tributary::app {
namespace {

/// Refuses a prediction of another plan than the one that the run used.
void check_same_plan(const std::filesystem::path& run, const config::Trace& predicted,
                     const std::string& path) {
  const std::string plan = (run / "plan.json").string();
  const std::string& digest = predicted.summary.plan_digest;
  if (digest.empty() || !std::filesystem::exists(plan)) {
    log_warning(str("report: ", digest.empty() ? path : run.string(),
                    " does not say its plan: whether the prediction is of the plan that ran is "
                    "not known"));
    return;
  }
  const std::string ran = config::plan_digest(config::read_plan(plan));
  TRIB_REQUIRE(digest == ran, .what = "report: prediction is of another plan",
               .where = str("--predicted ", path),
               .found = str("plan_digest ", digest, ", of ", escaped(predicted.summary.plan)),
               .expected = str(ran, ", of ", plan),
               .fix = str("simulate the plan that ran: tributary simulate ", plan, " -o ", path));
}

std::optional<RunPrediction> read_prediction(const std::filesystem::path& run,
                                             const std::string& predicted) {
  if (predicted.empty()) return std::nullopt;
  RunPrediction prediction{.predicted = config::read_trace(predicted), .measured = std::nullopt};
  check_same_plan(run, prediction.predicted, predicted);
  const std::filesystem::path measured = run / "trace.json";
  if (std::filesystem::exists(measured))
    prediction.measured = config::read_trace(measured.string());
  return prediction;
}

void require_steps(const RunRecord& run) {
  TRIB_REQUIRE(!run.steps.empty(), .what = "report: the run has no metrics",
               .where = (std::filesystem::path(run.directory) / "metrics.jsonl").string(),
               .found = "no complete line", .expected = "one JSON object a step");
}

/// Reads the run that `--against` names; null without one.
std::optional<RunComparison> read_comparison(const RunRecord& run, const std::string& against) {
  if (against.empty()) return std::nullopt;
  std::error_code not_there;  // then they are not the same directory
  TRIB_REQUIRE(!std::filesystem::equivalent(run.directory, against, not_there),
               .what = "report: a run against itself", .where = "--against", .found = against,
               .expected = "the directory of another run");
  RunRecord other = read_run(against);
  require_steps(other);
  require_steps(run);
  return compare_runs(run, std::move(other));
}

struct Arguments {
  std::string run;
  std::string output;
  std::string predicted;
  std::string against;
  std::int64_t examples = 8;
  double watch = 0;
};

/// Writes the page of a run as it is now. Returns whether the run has ended; until then the page
/// reloads itself where it is watched.
bool write_run_page(const Arguments& arguments, const std::string& path) {
  const std::optional<RunPrediction> prediction =
      read_prediction(arguments.run, arguments.predicted);
  const RunRecord record = read_run(arguments.run);
  const auto comparison = read_comparison(record, arguments.against);
  // A run that goes on after its end has the summary of before until it ends again.
  const double last = record.steps.empty() ? 0 : static_cast<double>(record.steps.back().step);
  const bool has_ended =
      !record.failure.empty() || (record.summary && record.summary->steps.value_or(last) >= last);
  const ReportLimits limits{.examples_per_source = static_cast<std::size_t>(arguments.examples),
                            .reload_seconds = has_ended ? 0 : arguments.watch};
  write_report_file(write_report(record, limits, prediction ? &*prediction : nullptr,
                                 comparison ? &*comparison : nullptr),
                    path);
  return has_ended;
}

/// Refuses numbers that no report has, and options of a run beside a trace.
void check_arguments(const Arguments& arguments, bool is_trace) {
  TRIB_REQUIRE(arguments.examples >= 0 && arguments.examples <= 1000,
               .what = "report: value cannot be used", .where = "--examples",
               .found = str(arguments.examples), .expected = "0 to 1000");
  TRIB_REQUIRE(arguments.watch == 0 || (arguments.watch >= 0.2 && arguments.watch <= 3600),
               .what = "report: value cannot be used", .where = "--watch",
               .found = str(arguments.watch), .expected = "0.2 to 3600 seconds");
  TRIB_REQUIRE(!is_trace || arguments.against.empty(), .what = "report: --against beside a trace",
               .where = arguments.run, .found = arguments.against,
               .expected = "the directory of a run");
  TRIB_REQUIRE(!is_trace || arguments.watch == 0, .what = "report: --watch beside a trace",
               .where = arguments.run, .found = str(arguments.watch),
               .expected = "the directory of a run");
}

}  // namespace

Run declare_report(Verb& verb) {
  const auto arguments = std::make_shared<Arguments>();
  verb.positional("RUN_DIR", arguments->run,
                  "directory of a run, for example runs/demo; or a trace, of `tributary simulate`");
  verb.option("-o,--output", arguments->output,
              "HTML file; default: RUN_DIR/report.html, or beside the trace");
  verb.option("--predicted", arguments->predicted,
              "trace of a simulation to draw the run over; RUN_DIR/trace.json, where the run left "
              "one, is drawn beside it");
  verb.option("--against", arguments->against,
              "directory of a second run: both losses in one chart, their differences, ratios of "
              "step time and tokens/s, and the configuration keys that differ");
  verb.option("--examples", arguments->examples, "predictions shown of each source");
  verb.option(
      "--watch", arguments->watch,
      "write the page anew every this many seconds until the run ends; a browser that shows it "
      "reloads it and keeps the place");
  verb.example(
      "tributary report runs/demo\n"
      "  tributary report runs/demo --against runs/before\n"
      "  tributary report runs/demo --watch 5\n"
      "  tributary report trace.json");
  return [arguments, answer = verb.answer()] {
    const std::filesystem::path run = arguments->run;
    const bool is_trace = std::filesystem::is_regular_file(run);
    check_arguments(*arguments, is_trace);
    const std::string path = !arguments->output.empty() ? arguments->output
                             : is_trace
                                 ? std::filesystem::path(run).replace_extension(".html").string()
                                 : (run / "report.html").string();
    check_output(arguments->output, {arguments->run, arguments->predicted});
    if (is_trace) {
      write_report_file(write_trace_report(config::read_trace(run.string()), run.string()), path);
      std::cout << path << "\n";
      answer.give({{"report", path}});
      return ExitCode::kDone;
    }
    bool has_ended = write_run_page(*arguments, path);
    std::cout << path << std::endl;
    while (arguments->watch > 0 && !has_ended) {
      std::this_thread::sleep_for(std::chrono::duration<double>(arguments->watch));
      has_ended = write_run_page(*arguments, path);
    }
    answer.give({{"report", path}});
    return ExitCode::kDone;
  };
}

}  // namespace tributary::app
