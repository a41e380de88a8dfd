#include "app/cli/planning/plan_model.h"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/answer/certificate_json.h"
#include "app/cli/planning/show_plans.h"
#include "app/cli/planning/show_quantities.h"
#include "core/error.h"
#include "cost/watched_costs.h"

namespace tributary::app {
namespace {

/// What was searched, and what its answer leaves out.
void print_search(const PlanAnswer& answer) {
  const plan::PlanSearch& search = answer.search;
  std::cout << search.cells << " cells, " << search.estimates << " estimates, " << search.judged
            << " plans run on batches, " << search.certificate.evaluations << " steps simulated, "
            << in_time({std::llround(1e6 * answer.milliseconds)}) << '\n';
  if (!answer.note.empty()) std::cout << answer.note << '\n';
  if (!answer.plans.front().found.links_shared)
    std::cout << "messages were timed as if each were alone: the plans are too large to simulate "
                 "links that are shared within the budget\n";
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
    std::cout << "for simulation alone: no plan that `train` runs was found\n";
  std::cout << "step " << in_time(certificate.value) << "; no plan "
            << (trains ? "that `train` runs " : "") << "is below "
            << in_time(certificate.lower_bound) << ", gap " << in_percent(certificate.gap(), 1)
            << " (" << plan::name_of(certificate.status) << ")\n";
  print_heading();
  std::int64_t place = 0;
  std::int64_t refused = 0;
  for (const ListedPlan& listed : answer.plans) {
    ++place;
    if (listed.trains()) {
      if (place <= keep) print_plan(answer, listed, place);
      continue;
    }
    if (++refused > keep) break;
    if (refused == 1 && trains) std::cout << "faster, but for simulation alone:\n";
    if (unknown.empty()) std::cout << "     `train` refuses: " << listed.refusal << '\n';
    print_plan(answer, listed, place);
  }
  print_search(answer);
}

}  // namespace

ExitCode plan_model(const ModelPlanning& arguments) {
  check_keep(arguments.keep, Caller::kCommandLine);
  check_plan_output(arguments);
  const auto [model, request] = read_model_request(arguments);
  const PlanAnswer answer = answer_plan(request);
  if (answer.plans.empty()) {
    if (arguments.json) std::cout << to_json(answer, 0).dump() << '\n';
    TRIB_RAISE(Fault::kResource, .what = "plan: no plan fits",
               .where = str(answer.problem.devices, " devices of ", answer.problem.cluster.name),
               .found = answer.search.certificate.limit);
  }
  const ListedPlan& best = answer.plans.front();
  write_plan_of(model, best.found.plan, arguments.output);
  if (arguments.json) {
    std::cout << to_json(answer, arguments.keep).dump() << '\n';
  } else {
    print_as_text(answer, request.trainer, arguments.keep);
    if (answer.explanation)
      print_explanation(*answer.explanation, std::ssize(answer.problem.batches));
    print_written(best, arguments.output, arguments.path, arguments.cluster);
  }
  return ExitCode::kDone;
}

}  // namespace tributary::app
