#include "app/cli/planning/plan_model.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "app/answer/certificate_json.h"
#include "app/answer/plan_answer.h"
#include "app/answer/profile_model.h"
#include "app/answer/simulate_answer.h"
#include "app/cli/output_file.h"
#include "app/cli/planning/show_quantities.h"
#include "config/read_run_config.h"
#include "core/error.h"
#include "plan/baseline/problem_of_model.h"
#include "plan/cost/watched_costs.h"

namespace tributary::app {
namespace {

using plan::FoundPlan;
using plan::PlanningProblem;

std::vector<std::string> words_of(const char* option, const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) {
    const std::size_t begin = word.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    words.push_back(word.substr(begin, word.find_last_not_of(' ') + 1 - begin));
  }
  TRIB_REQUIRE(list.empty() || !words.empty(), .what = "app: list names nothing", .where = option,
               .found = escaped(list), .expected = "names, a comma between them",
               .fix = "leave it out for the default");
  return words;
}

/// What CONFIG says beyond the model.
struct Setting {
  std::string model;  // as the plan names it
  std::int64_t global_samples = 512;
  std::int64_t tokens = 4096;
  std::vector<std::string> frozen = {};
};

bool is_run_config(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  return extension == ".yaml" || extension == ".yml";
}

/// A number that the user gave, where its default is one of another place.
void require_number(const ModelPlanning& arguments, const std::string& option, std::int64_t value) {
  TRIB_REQUIRE(value >= 1 || !arguments.given.has(option), .what = "app: value cannot be used",
               .where = option, .found = str(value), .expected = "1 or more",
               .fix = "leave it out for the default");
}

Setting read_setting(const ModelPlanning& arguments) {
  require_number(arguments, "--global-samples", arguments.global_samples);
  require_number(arguments, "--tokens", arguments.tokens);
  require_number(arguments, "--devices", arguments.devices);
  Setting setting{.model = arguments.path};
  if (is_run_config(arguments.path)) {
    const config::RunConfig run = config::read_run_config(arguments.path);
    setting.model = run.model.path;
    TRIB_REQUIRE(
        std::filesystem::exists(setting.model),
        .what = "app: model of the run configuration is not there",
        .where = arguments.path + " model.path", .found = setting.model,
        .expected = str("a directory with a config.json, or a module graph, at ",
                        std::filesystem::absolute(setting.model).string()),
        .fix = "its paths are seen from the current folder: run there, or give a whole one");
    setting.global_samples = run.batch.global_samples;
    setting.tokens = run.batch.capacity_tokens.count;
    setting.frozen = run.model.freeze;
  }
  if (arguments.global_samples != 0) setting.global_samples = arguments.global_samples;
  if (arguments.tokens != 0) setting.tokens = arguments.tokens;
  for (std::string& module : words_of("--freeze", arguments.freeze))
    setting.frozen.push_back(module);
  return setting;
}

/// What the search is asked.
PlanRequest read_request(const ModelPlanning& arguments, const Setting& setting) {
  PlanRequest request{.model = read_graph(setting.model)};
  if (!arguments.cluster.empty()) request.cluster = config::read_cluster(arguments.cluster);
  if (!arguments.profile.empty()) {
    request.profile = config::read_profile(arguments.profile);
    check_profile_model(*request.profile, arguments.profile, setting.model);
  }
  request.profile_name = arguments.profile;
  request.threads = arguments.threads;
  if (!arguments.lengths.empty()) request.recorded = read_sizes(arguments.lengths);
  request.frozen = setting.frozen;
  request.schedules = words_of("--schedules", arguments.schedules);
  request.axes = words_of("--axes", arguments.axes);
  request.devices = arguments.devices;
  request.global_samples = setting.global_samples;
  request.tokens = setting.tokens;
  request.batches = arguments.batches;
  request.seed = arguments.seed;
  request.candidates = arguments.candidates;
  request.runnable = arguments.runnable;
  request.explain = arguments.explain;
  request.given = arguments.given;
  return request;
}

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
    std::cout << std::setw(2) << rank << ". " << in_milliseconds(found.step) << " +- "
              << in_milliseconds(found.deviation) << ", gap "
              << in_percent(gap_above(found.step, certificate.lower_bound), 2) << ", "
              << found.choice.devices() << " devices, " << in_gibibytes(found.peak) << " ("
              << found.fullest << "): " << describe(problem, found.choice);
    if (found.links_shared && found.simulated_batches < std::ssize(problem.batches))
      std::cout << " (" << found.simulated_batches << " of " << problem.batches.size()
                << " batches simulated)";
    std::cout << '\n';
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

void print_explanation(const plan::PlanExplanation& explanation, std::int64_t batches) {
  std::cout << "what limits the best plan, step " << in_milliseconds(explanation.step);
  if (batches > kExplainedBatches)
    std::cout << " on the first " << kExplainedBatches << " of " << batches << " batches";
  std::cout << ":\n"
            << "  critical path:";
  for (const auto& [kind, time] : explanation.critical_path)
    std::cout << ' ' << kind << ' ' << in_milliseconds(time);
  std::cout << "\n  time of all ranks: busy " << in_percent(explanation.busy, 2)
            << ", communication " << in_percent(explanation.communication, 2);
  for (const auto& [cause, share] : explanation.idle)
    std::cout << ", " << cause << ' ' << in_percent(share, 2);
  std::cout << "\n  memory of " << explanation.fullest << ": " << in_gibibytes(explanation.peak)
            << " of " << in_gibibytes(explanation.available) << ':';
  for (const auto& [holder, bytes] : explanation.memory)
    if (bytes.count > 0) std::cout << ' ' << holder << ' ' << in_gibibytes(bytes);
  std::cout << "\nwhat would help, each by another simulation:\n";
  for (const plan::Remedy& remedy : explanation.remedies)
    std::cout << "  " << std::setw(8) << in_percent(remedy.gain, 2) << " to "
              << in_milliseconds(remedy.step) << ": " << remedy.change << '\n';
}

/// The path of the model as seen from the folder of the plan.
std::string seen_from(const std::string& output, const std::string& model) {
  const std::filesystem::path folder =
      std::filesystem::absolute(output).lexically_normal().parent_path();
  return std::filesystem::absolute(model).lexically_normal().lexically_relative(folder).string();
}

void write_best(const ModelPlanning& arguments, const Setting& setting,
                const plan::PlanSearch& search) {
  config::Plan best = search.plans.front().plan;
  best.model = seen_from(arguments.output, setting.model);
  config::check_plan(best, arguments.output);
  write_output(arguments.output, config::write_plan(best));
}

}  // namespace

ExitCode plan_model(const ModelPlanning& arguments) {
  check_keep(arguments.keep, Caller::kCommandLine);
  check_output(arguments.output, {arguments.path, arguments.path + "/config.json",
                                  arguments.cluster, arguments.profile, arguments.lengths});
  const Setting setting = read_setting(arguments);
  const PlanAnswer answer = answer_plan(read_request(arguments, setting));
  const plan::PlanSearch& search = answer.search;
  if (search.plans.empty()) {
    if (arguments.json) std::cout << to_json(answer, 0).dump() << '\n';
    TRIB_RAISE(Fault::kResource, .what = "plan: no plan fits",
               .where = str(answer.problem.devices, " devices of ", answer.problem.cluster.name),
               .found = search.certificate.limit);
  }
  if (!arguments.output.empty()) write_best(arguments, setting, search);
  if (arguments.json) {
    std::cout << to_json(answer, arguments.keep).dump() << '\n';
  } else {
    print_as_text(answer, arguments.keep);
    if (answer.explanation)
      print_explanation(*answer.explanation, std::ssize(answer.problem.batches));
  }
  return ExitCode::kDone;
}

ModelTable cost_table_of(const ModelPlanning& arguments) {
  const std::string method = str("method ", arguments.method);
  arguments.given.refuse({"--profile", "--threads"}, method,
                         str("costs of a cluster, or --method ", kExact));
  arguments.given.refuse({"--axes", "--schedules", "--runnable", "--candidates"}, method,
                         str("none of these: it has a space of its own; or --method ", kExact));
  const Setting setting = read_setting(arguments);
  const PlanRequest request = read_request(arguments, setting);
  const PlanningProblem problem = problem_of(request);
  return {.problem = plan::problem_of_model(
              problem.model, problem.cluster,
              {.devices = problem.devices, .batches = problem.batches, .frozen = setting.frozen}),
          .note = note_on_devices(request, problem)};
}

}  // namespace tributary::app
