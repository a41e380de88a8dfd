#include "app/cli/planning/plan_published.h"

#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "app/answer/search_answer.h"
#include "app/cli/planning/show_plans.h"
#include "core/error.h"
#include "plan/baseline/read_cost_table.h"
#include "plan/compare/trainer_plan.h"

namespace tributary::app {
namespace {

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

/// A model as tables for the published methods, and as what the trainer's plans are judged by.
struct ModelTables {
  ModelRequest asked;
  plan::PlanningProblem problem;
  std::vector<plan::RecomputedTables> levels;
};

ModelTables tables_of(const ModelPlanning& arguments) {
  const std::string method = str("method ", arguments.method);
  arguments.given.refuse({"--axes", "--schedules", "--runnable", "--candidates"}, method,
                         str("none of these: it has a space of its own; or --method ", kExact));
  check_plan_output(arguments);
  ModelRequest asked = read_model_request(arguments);
  plan::PlanningProblem problem = problem_of(asked.request);
  std::vector<plan::RecomputedTables> levels =
      plan::recompute_levels(problem.model, problem.cluster,
                             {.devices = problem.devices,
                              .batches = problem.batches,
                              .frozen = asked.request.frozen,
                              .measured = problem.measured});
  return {std::move(asked), std::move(problem), std::move(levels)};
}

/// A method's plan as one of the trainer's: told, explained and written.
class TrainerPlanAnswer {
 public:
  TrainerPlanAnswer(const ModelPlanning& arguments, const ModelTables& tables,
                    const SearchAnswer& answer)
      : arguments_(arguments), tables_(tables), method_(answer.method) {
    const FoundPlan& best = answer.plans.front();
    plan_ = best.form ? plan::trainer_plan(tables.problem, *best.form, best.recompute)
                      : plan::TrainerPlan{.reason = beyond_trainer(answer)};
    if (!plan_.found) return;
    note_samples(tables.asked.request, tables.problem, plan_.found->plan);
    if (arguments.explain)
      explanation_ = plan::explain_plan(tables.problem, *plan_.found, kExplainedBatches,
                                        /*is_searched=*/false);
  }

  void print() const {
    if (plan_.found)
      std::cout << "as a plan of the trainer, simulated as those of " << kExact << ": "
                << in_a_line(tables_.problem, *plan_.found, plan_.text) << '\n';
    else
      std::cout << "no plan of the trainer, " << method_ << "'s is none: " << plan_.reason << '\n';
    if (explanation_) print_explanation(*explanation_, std::ssize(tables_.problem.batches));
  }

  [[nodiscard]] Json json() const {
    if (!plan_.found) return {{"reason", plan_.reason}};
    Json json = to_json(*plan_.found, plan_.text);
    if (explanation_) json["explanation"] = to_json(*explanation_);
    return json;
  }

  /// errors: Fault::kResource where something was asked of a plan that is not there
  void write() const {
    if (plan_.found) {
      write_plan_of(tables_.asked.model, plan_.found->plan, arguments_.output);
      return;
    }
    if (arguments_.output.empty() && !arguments_.explain) return;
    TRIB_RAISE(Fault::kResource, .what = "plan: the method's plan is none of the trainer's",
               .where = arguments_.output.empty() ? "--explain" : "--output",
               .found = str("method ", method_, ": ", plan_.reason),
               .expected = "a plan that the trainer's form holds and its memory has room for",
               .fix = str("another method, or --method ", kExact));
  }

 private:
  const ModelPlanning& arguments_;
  const ModelTables& tables_;
  std::string method_;
  plan::TrainerPlan plan_;
  std::optional<plan::PlanExplanation> explanation_;
};

SearchRequest request_of(const ModelPlanning& arguments) {
  SearchRequest request{.keep = arguments.keep, .table = arguments.path};
  if (!arguments.method.empty()) request.method = arguments.method;
  check_request(request);
  if (request.method != kPublishedObjective)
    arguments.given.refuse({"--keep"}, str("method ", request.method),
                           str(kPublishedObjective, " or ", kExact, ", which have several plans"));
  return request;
}

/// A method asked for by its name that has no plan is no answer; among all it is one beside others.
void check_has_plan(const SearchRequest& request, const std::vector<SearchAnswer>& answers,
                    std::int64_t devices) {
  if (request.method != kAllMethods && answers.front().plans.empty())
    TRIB_RAISE(Fault::kResource, .what = "plan: no plan fits",
               .where = str("method ", request.method, ", ", devices, " devices"),
               .found = answers.front().certificate.limit);
}

Json to_json(const std::vector<SearchAnswer>& answers) {
  Json list = Json::array();
  for (const SearchAnswer& answer : answers) list.push_back(to_json(answer));
  return list;
}

ExitCode plan_table(const ModelPlanning& arguments) {
  arguments.given.refuse_all_but({"CONFIG", "--method", "--keep", "--json"},
                                 "a cost table, which says all the rest");
  const SearchRequest request = request_of(arguments);
  const plan::RecomputedTables tables{.problem = plan::read_cost_table(arguments.path)};
  const std::vector<SearchAnswer> answers = answer_search(request, std::span(&tables, 1));
  if (arguments.json) std::cout << to_json(answers).dump() << '\n';
  check_has_plan(request, answers, tables.problem.costs.devices);
  if (!arguments.json)
    for (const SearchAnswer& answer : answers) print_as_text(answer);
  return ExitCode::kDone;
}

}  // namespace

ExitCode plan_published(const ModelPlanning& arguments, bool is_table) {
  if (is_table) return plan_table(arguments);
  const SearchRequest request = request_of(arguments);
  const bool is_one = request.method != kAllMethods;
  if (!is_one)
    arguments.given.refuse({"--output", "--explain"}, str("method ", kAllMethods),
                           "the name of one method");
  const ModelTables tables = tables_of(arguments);
  const std::vector<SearchAnswer> answers = answer_search(request, tables.levels);
  std::optional<TrainerPlanAnswer> trainer;
  if (is_one && !answers.front().plans.empty()) trainer.emplace(arguments, tables, answers.front());
  if (arguments.json) {
    Json list = to_json(answers);
    if (trainer) list.front()["trainer_plan"] = trainer->json();
    std::cout << list.dump() << '\n';
  }
  check_has_plan(request, answers, tables.problem.devices);
  if (!arguments.json) {
    if (const std::string note = note_on_devices(tables.asked.request, tables.problem);
        !note.empty())
      std::cout << note << '\n';
    for (const SearchAnswer& answer : answers) print_as_text(answer);
    if (tables.problem.measured)
      std::cout << "degrees that were not measured are left out; measured are "
                << tables.problem.measured->degrees() << '\n';
    if (trainer) trainer->print();
  }
  if (trainer) trainer->write();
  return ExitCode::kDone;
}

}  // namespace tributary::app
