#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/planning/plan_published.h"
#include "app/cli/planning/show_plans.h"
#include "app/cli/planning/show_quantities.h"
#include "core/error.h"
#include "core/json.h"
#include "cost/watched_costs.h"
#include "studies/methods/read_cost_table.h"

namespace tributary::app {
namespace {

/// Whether the file's `format` is that of a cost table. Its reader reports what else is wrong.
bool is_cost_table(const std::string& path) {
  if (std::filesystem::is_directory(path) || std::filesystem::path(path).extension() != ".json")
    return false;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  TRIB_REQUIRE(file.is_open() && !file.bad(), .what = "app: file cannot be read", .where = path,
               .expected = "a cost table, or a module graph");
  const Json json = parse_json(text, path);
  // Compared as JSON, because a format that is not a text is left to the reader to report.
  return json.is_object() && json.contains("format") &&
         json["format"] == Json(studies::kCostTableFormat);
}

/// Prints how much was searched and what the answer leaves out.
void print_search(const PlanAnswer& answer) {
  const plan::PlanSearch& search = answer.search;
  std::cout << search.cells << " cells, " << search.estimates << " estimates, " << search.judged
            << " plans run on batches, " << search.certificate.evaluations << " steps simulated, "
            << in_time({std::llround(1e6 * answer.milliseconds)}) << '\n';
  if (!answer.note.empty()) std::cout << answer.note << '\n';
  if (search.unshared > 0)
    std::cout << search.unshared
              << " plans with a colocated encoder left out: too large to simulate links that are "
                 "shared, as those of the others are\n";
  if (!answer.beyond_grid.empty())
    std::cout << "the best plan is beyond what was measured, at the rate of the largest size: "
              << cost::describe(answer.beyond_grid) << '\n';
  if (search.left_out.cells > 0)
    std::cout << "left out for want of measurements: " << search.left_out.cells
              << " cells, and of others the plans with these degrees: " << search.left_out.text()
              << '\n';
}

void print_plan(const PlanAnswer& answer, const ListedPlan& listed, std::int64_t place) {
  print_row(answer.problem, listed, describe(answer.problem, listed.found.choice), place);
}

void print_as_text(const PlanAnswer& answer, const TrainerCheck& trainer, std::int64_t keep) {
  const plan::Certificate& certificate = answer.search.certificate;
  const bool trains = answer.plans.front().trains();
  const std::string& unknown = trainer.refusal_of_model();
  std::cout << kSearch << ": " << describe_work(answer.problem) << '\n';
  if (!unknown.empty())
    std::cout << "for simulation alone: `train` refuses all plans of this model: " << unknown
              << '\n';
  else if (!trains)
    std::cout << "for simulation alone: `train` refuses the plan: " << answer.plans.front().refusal
              << '\n';
  std::cout << "step " << in_time(certificate.value) << "; no plan "
            << (trains ? "that `train` runs " : "") << "is below "
            << in_time(certificate.lower_bound) << ", gap " << in_percent(certificate.gap(), 1)
            << " (" << plan::name_of(certificate.status) << ")\n";
  print_heading();
  std::int64_t place = 0;
  for (const ListedPlan& listed : answer.plans)
    if (place < keep) print_plan(answer, listed, ++place);
  print_search(answer);
}

/// Runs the default search, prints its best plans and writes the best one.
ExitCode plan_model(const PlanOptions& options) {
  check_keep(options);
  check_plan_output(options);
  const PlanRequest request = read_request(options);
  const PlanAnswer answer = answer_plan(request);
  if (answer.plans.empty()) {
    if (options.json) std::cout << to_json(answer, 0).dump() << '\n';
    TRIB_RAISE(Fault::kResource, .what = "plan: no plan fits",
               .where = str(answer.problem.devices, " devices of ", answer.problem.cluster.name),
               .found = answer.search.certificate.limit);
  }
  const ListedPlan& best = answer.plans.front();
  write_plan_of(request, best.found.plan);
  if (options.json) {
    std::cout << to_json(answer, options.keep).dump() << '\n';
  } else {
    print_as_text(answer, request.trainer, options.keep);
    if (answer.explanation)
      print_explanation(*answer.explanation, std::ssize(answer.problem.batches));
    print_written(best, options);
  }
  return ExitCode::kDone;
}

ExitCode run_plan(const PlanOptions& options) {
  const std::string& path = options.model.text;
  TRIB_REQUIRE(std::filesystem::exists(path), .what = "app: nothing to plan", .where = path,
               .found = "no such file",
               .expected =
                   "a run configuration (.yaml), a model directory, a module graph or a "
                   "cost table (.json)",
               .fix = "correct the path");
  const bool is_table = is_cost_table(path);
  const std::string& method = options.method;
  if (!is_table && (method.empty() || method == kSearch || method == kFormerSearch))
    return plan_model(options);
  return plan_published(options, is_table);
}

}  // namespace

Run declare_plan(Verb& verb) {
  const auto options = std::make_shared<PlanOptions>();
  verb.fields(fields_of(*options));
  verb.example(
      "tributary plan configs/demo_model --cluster configs/clusters/cpu_2.yaml -o plan.json\n"
      "  tributary plan configs/demo_model --cluster configs/clusters/a100_8.yaml --method all\n"
      "  tributary plan configs/studies/synthetic_8b.json --method all");
  options->given = verb.given();
  return [options] { return run_plan(*options); };
}

}  // namespace tributary::app
