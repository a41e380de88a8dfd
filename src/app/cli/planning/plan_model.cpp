#include "app/cli/planning/plan_model.h"

#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/answer/certificate_json.h"
#include "app/cli/planning/show_plans.h"
#include "app/cli/planning/show_quantities.h"
#include "core/error.h"
#include "plan/cost/watched_costs.h"

namespace tributary::app {
namespace {

using plan::FoundPlan;

void print_as_text(const PlanAnswer& answer, std::int64_t keep) {
  const auto& [problem, search, explanation, milliseconds, beyond_grid, note] = answer;
  const plan::Certificate& certificate = search.certificate;
  std::cout << kExact << ": step " << in_milliseconds(certificate.value) << " on "
            << problem.devices << " devices of " << problem.cluster.name << "; no plan is below "
            << in_milliseconds(certificate.lower_bound) << ", gap "
            << in_percent(certificate.gap(), 2) << " (" << plan::name_of(certificate.status)
            << ")\n"
            << search.cells << " cells, " << search.estimates << " estimates, " << search.judged
            << " plans run on batches, " << certificate.evaluations << " steps simulated, "
            << str(std::fixed, std::setprecision(0), milliseconds) << " ms\n";
  if (!note.empty()) std::cout << note << '\n';
  std::int64_t rank = 0;
  for (const FoundPlan& found : search.plans) {
    if (rank++ == keep) break;
    const std::string gap =
        str(", gap ", in_percent(gap_above(found.step, certificate.lower_bound), 2));
    std::cout << std::setw(2) << rank << ". "
              << in_a_line(problem, found, describe(problem, found.choice), gap) << '\n';
  }
  if (search.plans.front().choice.has_colocated())
    std::cout << "plan 1 is for simulation: the trainer does not run a colocated encoder, and "
                 "--runnable leaves it out\n";
  if (!search.plans.front().links_shared)
    std::cout << "messages were timed as if each were alone: the plans are too large to simulate "
                 "links that are shared within the budget\n";
  if (search.unshared > 0)
    std::cout << search.unshared
              << " plans with a colocated encoder left out: too large to simulate links that are "
                 "shared, as those of the others are\n";
  if (!beyond_grid.empty())
    std::cout << "the best plan is beyond what was measured, at the rate of the largest size: "
              << plan::describe(beyond_grid) << '\n';
  if (search.left_out.cells > 0)
    std::cout << "left out for want of measurements: " << search.left_out.cells
              << " cells, and of others the plans with these degrees: " << search.left_out.text()
              << '\n';
}

}  // namespace

ExitCode plan_model(const ModelPlanning& arguments) {
  check_keep(arguments.keep, Caller::kCommandLine);
  check_plan_output(arguments);
  const auto [model, request] = read_model_request(arguments);
  const PlanAnswer answer = answer_plan(request);
  const plan::PlanSearch& search = answer.search;
  if (search.plans.empty()) {
    if (arguments.json) std::cout << to_json(answer, 0).dump() << '\n';
    TRIB_RAISE(Fault::kResource, .what = "plan: no plan fits",
               .where = str(answer.problem.devices, " devices of ", answer.problem.cluster.name),
               .found = search.certificate.limit);
  }
  write_plan_of(model, search.plans.front().plan, arguments.output);
  if (arguments.json) {
    std::cout << to_json(answer, arguments.keep).dump() << '\n';
  } else {
    print_as_text(answer, arguments.keep);
    if (answer.explanation)
      print_explanation(*answer.explanation, std::ssize(answer.problem.batches));
  }
  return ExitCode::kDone;
}

}  // namespace tributary::app
