#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/answer/certificate_json.h"
#include "app/answer/search_answer.h"
#include "app/cli/commands.h"
#include "core/error.h"
#include "plan/baseline/read_cost_table.h"

namespace tributary::app {
namespace {

struct PlanArguments {
  std::string path;
  SearchRequest request;
  bool json = false;
};

std::string seconds_text(double seconds) { return str(std::setprecision(6), seconds, " s"); }

void print_as_text(const SearchAnswer& answer) {
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
  for (const FoundPlan& found : answer.plans) {
    std::cout << "  " << seconds_text(found.seconds) << ": " << found.text << '\n';
  }
}

ExitCode run_plan(const PlanArguments& arguments) {
  check_request(arguments.request);
  const std::vector<SearchAnswer> answers =
      answer_search(arguments.request, plan::read_cost_table(arguments.path));
  if (arguments.json) {
    Json list = Json::array();
    for (const SearchAnswer& answer : answers) list.push_back(to_json(answer));
    std::cout << list.dump() << '\n';
  } else {
    for (const SearchAnswer& answer : answers) print_as_text(answer);
  }
  return ExitCode::kDone;
}

}  // namespace

Run declare_plan(Verb& verb) {
  const auto arguments = std::make_shared<PlanArguments>();
  verb.positional(
      "COSTS.json", arguments->path,
      "costs of an encoder and a backbone, devices, batches: docs/formats/cost_table.md");
  verb.option("--method", arguments->request.method,
              "published_objective (proven optimal), a published system by its name, or all");
  verb.option("--keep", arguments->request.keep, "best plans that published_objective prints");
  verb.flag("--json", arguments->json,
            "print a JSON list, an object for each method: method, status, value, lower_bound [s], "
            "gap, evaluations, milliseconds, limit, plans");
  verb.example("tributary plan configs/studies/synthetic_8b.json --method all");
  return [arguments] { return run_plan(*arguments); };
}

}  // namespace tributary::app
