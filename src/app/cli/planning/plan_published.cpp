#include "app/cli/planning/plan_published.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "app/answers/search_answer.h"
#include "app/cli/planning/show_plans.h"
#include "app/cli/planning/show_quantities.h"
#include "core/error.h"
#include "core/log.h"
#include "studies/compare/trainer_plan.h"
#include "studies/methods/read_cost_table.h"

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
  for (const MethodPlan& found : answer.plans) {
    std::cout << "  " << seconds_text(found.seconds) << ": " << found.text << '\n';
  }
}

/// A model as cost tables for the published methods, and as the problem that judges plan files.
struct ModelTables {
  PlanRequest request;
  plan::PlanningProblem problem;
  std::vector<studies::RecomputedTables> levels;
};

ModelTables tables_of(const PlanOptions& options) {
  const std::string method = str("method ", options.method);
  options.given.refuse({"--axes", "--schedules", "--runnable", "--candidates"}, method,
                       str("none of these: it has a space of its own; or --method ", kSearch));
  check_plan_output(options);
  PlanRequest request = read_request(options);
  plan::PlanningProblem problem = problem_of(request);
  std::vector<studies::RecomputedTables> levels =
      studies::recompute_levels(problem.model, problem.cluster,
                                {.devices = problem.devices,
                                 .batches = problem.batches,
                                 .frozen = request.options.freeze,
                                 .measured = problem.measured});
  return {std::move(request), std::move(problem), std::move(levels)};
}

/// A method's plan as a plan file, which can be printed, explained and written.
class PlanFileAnswer {
 public:
  PlanFileAnswer(const PlanOptions& options, const ModelTables& tables, const SearchAnswer& answer)
      : options_(&options), tables_(&tables), method_(answer.method) {
    const MethodPlan& best = answer.plans.front();
    studies::TrainerPlan placed =
        best.form ? studies::trainer_plan(tables.problem, *best.form, best.recompute)
                  : studies::TrainerPlan{.reason = beyond_trainer(answer)};
    text_ = placed.text;
    reason_ = placed.reason;
    if (!placed.found) return;
    plan_ = list_plan(tables.request, tables.problem, *placed.found, placed.found->step);
    if (options.explain)
      explanation_ = plan::explain_plan(tables.problem, plan_->found, kExplainedBatches,
                                        /*is_searched=*/false);
  }

  [[nodiscard]] bool trains() const { return plan_ && plan_->trains(); }

  /// Says why the method's plan cannot be trained, where that is so.
  void print_refusal() const {
    if (!plan_)
      std::cout << method_
                << ": for simulation by tables alone: no plan file has its form: " << reason_
                << '\n';
    else if (!plan_->trains())
      std::cout << method_ << ": for simulation alone: `train` refuses its plan: " << plan_->refusal
                << '\n';
  }

  void print() const {
    if (!plan_) return;
    std::cout << "as a plan file, simulated as those of " << kSearch
              << (trains() ? ", `train` runs it" : "") << ":\n";
    print_heading();
    print_row(tables_->problem, *plan_, text_, /*place=*/0, /*has_gap=*/false);
    if (explanation_) print_explanation(*explanation_, std::ssize(tables_->problem.batches));
    print_written(*plan_, *options_);
  }

  [[nodiscard]] Json json() const {
    if (!plan_) return {{"reason", reason_}};
    Json json = to_json(*plan_, text_);
    json.erase("gap");
    if (explanation_) json["explanation"] = to_json(*explanation_);
    return json;
  }

  /// errors: Fault::kResource where the user wants a plan file that does not exist
  void write() const {
    if (plan_) {
      write_plan_of(tables_->request, plan_->found.plan);
      return;
    }
    if (options_->output.empty() && !options_->explain) return;
    TRIB_RAISE(Fault::kResource, .what = "plan: no plan file has the form of the method's plan",
               .where = options_->output.empty() ? "--explain" : "--output",
               .found = str("method ", method_, ": ", reason_),
               .expected = "a plan that a file holds and the simulator's memory has room for",
               .fix = str("another method, or --method ", kSearch));
  }

 private:
  const PlanOptions* options_;
  const ModelTables* tables_;
  std::string method_;
  std::optional<ListedPlan> plan_;  // null: reason_ says why
  std::string text_;                // the plan in words
  std::string reason_;
  std::optional<plan::PlanExplanation> explanation_;
};

SearchRequest request_of(const PlanOptions& options) {
  SearchRequest request{.keep = options.keep, .table = options.model.text};
  if (!options.method.empty()) request.method = options.method;
  check_request(request);
  if (request.method != kPublishedObjective)
    options.given.refuse({"--keep"}, str("method ", request.method),
                         str(kPublishedObjective, " or ", kSearch, ", which have several plans"));
  return request;
}

/// Fails when the one method that was named has no plan. With `--method all` its row is empty.
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

/// Warns before a search that may take minutes, so that nobody takes it for a hang.
void note_size(const studies::TrainingProblem& problem) {
  constexpr double kMany = 20'000;
  const double samples = static_cast<double>(problem.costs.global_samples) *
                         static_cast<double>(std::max<std::size_t>(1, problem.batches.size()));
  if (samples < kMany) return;
  log_note(str("plan: ", in_thousands(samples),
               " samples in all batches, dealt anew for each choice: this may take minutes; fewer "
               "global_samples or batches take less"));
}

ExitCode plan_table(const PlanOptions& options) {
  options.given.refuse_all_but({"CONFIG", "--method", "--keep", "--json"},
                               "a cost table, which says all the rest");
  const SearchRequest request = request_of(options);
  const studies::RecomputedTables tables{.problem = studies::read_cost_table(options.model.text)};
  note_size(tables.problem);
  const std::vector<SearchAnswer> answers = answer_search(request, std::span(&tables, 1));
  if (options.json) std::cout << to_json(answers).dump() << '\n';
  check_has_plan(request, answers, tables.problem.costs.devices);
  if (!options.json)
    for (const SearchAnswer& answer : answers) print_as_text(answer);
  return ExitCode::kDone;
}

/// Makes the plan file of each method, and sorts methods whose plan `train` runs to the front.
void sort_runnable_first(const PlanOptions& options, const ModelTables& tables,
                         std::vector<SearchAnswer>& answers,
                         std::vector<std::optional<PlanFileAnswer>>& files) {
  std::vector<std::pair<SearchAnswer, std::optional<PlanFileAnswer>>> all;
  for (SearchAnswer& answer : answers) {
    std::optional<PlanFileAnswer> file;
    if (!answer.plans.empty()) file.emplace(options, tables, answer);
    all.emplace_back(std::move(answer), std::move(file));
  }
  std::ranges::stable_partition(
      all, [](const auto& each) { return each.second && each.second->trains(); });
  answers.clear();
  for (auto& [answer, file] : all) {
    answers.push_back(std::move(answer));
    files.push_back(std::move(file));
  }
}

void print_methods(const ModelTables& tables, const std::vector<SearchAnswer>& answers,
                   const std::vector<std::optional<PlanFileAnswer>>& files) {
  std::cout << describe_work(tables.problem) << '\n';
  if (const std::string note = note_on_devices(tables.request, tables.problem); !note.empty())
    std::cout << note << '\n';
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (files[i]) files[i]->print_refusal();
    print_as_text(answers[i]);
  }
  if (tables.problem.measured)
    std::cout << "degrees that were not measured are left out; measured are "
              << tables.problem.measured->degrees() << '\n';
}

}  // namespace

ExitCode plan_published(const PlanOptions& options, bool is_table) {
  if (is_table) return plan_table(options);
  const SearchRequest request = request_of(options);
  const bool is_one = request.method != kAllMethods;
  if (!is_one)
    options.given.refuse({"--output", "--explain"}, str("method ", kAllMethods),
                         "the name of one method");
  const ModelTables tables = tables_of(options);
  std::vector<SearchAnswer> answers = answer_search(request, tables.levels);
  std::vector<std::optional<PlanFileAnswer>> files;
  sort_runnable_first(options, tables, answers, files);
  const std::optional<PlanFileAnswer>& file = files.front();
  if (options.json) {
    Json list = to_json(answers);
    for (std::size_t i = 0; i < files.size(); ++i)
      if (files[i]) list[i]["trainer_plan"] = files[i]->json();
    std::cout << list.dump() << '\n';
  }
  check_has_plan(request, answers, tables.problem.devices);
  if (is_one && file) file->write();
  if (options.json) return ExitCode::kDone;
  print_methods(tables, answers, files);
  if (is_one && file) file->print();
  return ExitCode::kDone;
}

}  // namespace tributary::app
