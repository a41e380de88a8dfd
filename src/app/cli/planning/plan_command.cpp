#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "core/error.h"
#include "core/json.h"
#include "core/stopwatch.h"
#include "plan/baseline/pipeline_baselines.h"
#include "plan/baseline/read_cost_table.h"
#include "plan/search/search_3d.h"

namespace tributary::app {
namespace {

using plan::Certificate;
using plan::PipelineBaseline;
using plan::Status;

constexpr const char* kPublished = "published_objective";

struct PlanArguments {
  std::string path;
  std::string method = kPublished;
  std::int64_t keep = 10;
  bool json = false;
};

/// One method's answer, as it is printed.
struct MethodAnswer {
  std::string method;
  Certificate certificate;
  std::vector<std::pair<std::string, double>> plans;  // the best first, seconds of a step
  double milliseconds = 0;
};

std::string seconds_text(double seconds) { return str(std::setprecision(6), seconds, " s"); }
double seconds_of(Nanoseconds time) { return 1e-9 * static_cast<double>(time.count); }

std::string describe(const plan::Plan3d& found) {
  const auto degrees = [](const plan::Degrees& d) {
    return str("tp ", d.tp, ", pp ", d.pp, ", dp ", d.dp);
  };
  return str("encoder ", degrees(found.encoder), "; backbone ", degrees(found.backbone), ", ",
             found.microbatches, " microbatches");
}

MethodAnswer solve_published(const plan::TrainingProblem& problem, std::int64_t keep) {
  const Stopwatch watch;
  const plan::Search3dResult found = search_3d(problem.costs, {.keep = keep});
  MethodAnswer answer = {kPublished, found.certificate, {}, 1e3 * watch.seconds()};
  for (const plan::Plan3d& one : found.plans) {
    answer.plans.emplace_back(describe(one), one.seconds);
  }
  return answer;
}

MethodAnswer solve_baseline(const PipelineBaseline& baseline,
                            const plan::TrainingProblem& problem) {
  const Stopwatch watch;
  const plan::PipelineAnswer found = baseline.solve(problem);
  MethodAnswer answer = {std::string(baseline.name), found.certificate, {}, 1e3 * watch.seconds()};
  if (!found.plan.empty()) {
    answer.plans.emplace_back(found.plan, seconds_of(found.certificate.value));
  }
  return answer;
}

std::vector<MethodAnswer> solve(const PlanArguments& arguments) {
  std::vector<std::string> names = {kPublished, "all"};
  for (const PipelineBaseline& baseline : plan::pipeline_baselines()) {
    names.emplace_back(baseline.name);
  }
  TRIB_REQUIRE(std::find(names.begin(), names.end(), arguments.method) != names.end(),
               .what = "app: unknown method", .where = "--method", .found = arguments.method,
               .expected = str("one of ", [&] {
                 std::string list;
                 for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
                 return list;
               }()));
  const plan::TrainingProblem problem = plan::read_cost_table(arguments.path);
  const bool all = arguments.method == "all";
  std::vector<MethodAnswer> answers;
  if (all || arguments.method == kPublished) {
    answers.push_back(solve_published(problem, all ? 1 : arguments.keep));
  }
  for (const PipelineBaseline& baseline : plan::pipeline_baselines()) {
    if (all || arguments.method == baseline.name) {
      answers.push_back(solve_baseline(baseline, problem));
    }
  }
  return answers;
}

Json to_json(const MethodAnswer& answer) {
  Json plans = Json::array();
  for (const auto& [text, seconds] : answer.plans) {
    plans.push_back({{"plan", text}, {"step_s", seconds}});
  }
  return {{"method", answer.method},
          {"status", name_of(answer.certificate.status)},
          {"value", seconds_of(answer.certificate.value)},
          {"lower_bound", seconds_of(answer.certificate.lower_bound)},
          {"gap", answer.certificate.gap()},
          {"evaluations", answer.certificate.evaluations},
          {"milliseconds", answer.milliseconds},
          {"limit", answer.certificate.limit},
          {"plans", plans}};
}

void print_as_text(const MethodAnswer& answer) {
  if (answer.plans.empty()) {
    std::cout << answer.method << ": " << name_of(answer.certificate.status) << ": "
              << answer.certificate.limit << '\n';
    return;
  }
  std::cout << answer.method << ": step " << seconds_text(seconds_of(answer.certificate.value))
            << ", at least " << seconds_text(seconds_of(answer.certificate.lower_bound)) << ", gap "
            << str(std::fixed, std::setprecision(3), 100 * answer.certificate.gap(), " %") << " ("
            << name_of(answer.certificate.status) << "), " << answer.certificate.evaluations
            << " evaluations, " << str(std::setprecision(3), answer.milliseconds) << " ms\n";
  for (const auto& [text, seconds] : answer.plans) {
    std::cout << "  " << seconds_text(seconds) << ": " << text << '\n';
  }
}

ExitCode run_plan(const PlanArguments& arguments) {
  TRIB_REQUIRE(arguments.keep >= 1 && arguments.keep <= 1000, .what = "app: value cannot be used",
               .where = "--keep", .found = str(arguments.keep), .expected = "1 to 1000");
  const std::vector<MethodAnswer> answers = solve(arguments);
  if (arguments.json) {
    Json list = Json::array();
    for (const MethodAnswer& answer : answers) list.push_back(to_json(answer));
    std::cout << list.dump() << '\n';
  } else {
    for (const MethodAnswer& answer : answers) print_as_text(answer);
  }
  return ExitCode::kDone;
}

}  // namespace

Run declare_plan(Verb& verb) {
  const auto arguments = std::make_shared<PlanArguments>();
  verb.positional(
      "COSTS.json", arguments->path,
      "costs of an encoder and a backbone, devices, batches: docs/formats/cost_table.md");
  verb.option("--method", arguments->method,
              "published_objective (proven optimal), a published system by its name, or all");
  verb.option("--keep", arguments->keep, "best plans that published_objective prints");
  verb.flag("--json", arguments->json,
            "print a JSON list, an object for each method: method, status, value, lower_bound [s], "
            "gap, evaluations, milliseconds, limit, plans");
  verb.example("tributary plan configs/studies/synthetic_8b.json --method all");
  return [arguments] { return run_plan(*arguments); };
}

}  // namespace tributary::app
