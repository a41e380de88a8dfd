#include "app/cli/planning/plan_model.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "app/answer/simulate_answer.h"
#include "app/cli/planning/show_quantities.h"
#include "config/plan/plan_names.h"
#include "config/read_run_config.h"
#include "core/error.h"
#include "core/file/file_system.h"
#include "core/json.h"
#include "core/stopwatch.h"
#include "plan/baseline/problem_of_model.h"
#include "plan/exact/explain_plan.h"

namespace tributary::app {
namespace {

using plan::FoundPlan;
using plan::PlanningProblem;

constexpr std::int64_t kExplainedBatches = 2;

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
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

Setting read_setting(const ModelPlanning& arguments) {
  Setting setting{.model = arguments.path};
  if (is_run_config(arguments.path)) {
    const config::RunConfig run = config::read_run_config(arguments.path);
    setting.model = run.model.path;
    setting.global_samples = run.batch.global_samples;
    setting.tokens = run.batch.capacity_tokens.count;
    setting.frozen = run.model.freeze;
  }
  if (arguments.global_samples > 0) setting.global_samples = arguments.global_samples;
  if (arguments.tokens > 0) setting.tokens = arguments.tokens;
  for (std::string& module : words_of(arguments.freeze)) setting.frozen.push_back(module);
  return setting;
}

void check_range(const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
  TRIB_REQUIRE(value >= least && value <= most, .what = "app: value cannot be used",
               .where = option, .found = str(value), .expected = str(least, " to ", most));
}

void check_options(const ModelPlanning& arguments) {
  check_range("--devices", arguments.devices, 0, 1 << 20);
  check_range("--global-samples", arguments.global_samples, 0, 1 << 20);
  check_range("--tokens", arguments.tokens, 0, 1 << 24);
  check_range("--batches", arguments.batches, 1, 1000);
  check_range("--seed", arguments.seed, 0, std::int64_t{1} << 62);
  check_range("--candidates", arguments.candidates, 1, 100'000);
}

config::Cluster find_cluster(const ModelPlanning& arguments) {
  if (!arguments.cluster.empty()) return config::read_cluster(arguments.cluster);
  TRIB_REQUIRE(arguments.devices >= 1, .what = "app: no cluster to plan for", .where = "--cluster",
               .found = "no such option", .expected = "a cluster file, docs/formats/cluster.md",
               .fix = "give --cluster FILE, or --devices N for nodes of 8 A100-80");
  return standard_cluster(arguments.devices);
}

/// The batches: recorded sizes, the mixture for models with an encoder, else texts of one length.
std::vector<std::vector<plan::SampleSize>> draw_batches(const ModelPlanning& arguments,
                                                        const Setting& setting, bool has_encoder) {
  const auto seed = static_cast<std::uint64_t>(arguments.seed);
  std::optional<plan::RecordedSizes> recorded;
  if (!arguments.lengths.empty()) recorded = read_sizes(arguments.lengths);
  std::vector<std::vector<plan::SampleSize>> batches;
  for (std::int64_t i = 0; i < arguments.batches; ++i) {
    const auto batch = static_cast<std::uint64_t>(i);
    if (recorded) {
      batches.push_back(plan::draw_recorded(*recorded, seed, batch, setting.global_samples));
    } else if (has_encoder) {
      batches.push_back(plan::draw_mixture(seed, batch, setting.global_samples));
    } else {
      batches.emplace_back(static_cast<std::size_t>(setting.global_samples),
                           plan::SampleSize{.tokens = setting.tokens});
    }
  }
  return batches;
}

void narrow_schedules(const std::string& list, plan::PlanSpace& space) {
  if (list.empty()) return;
  space.schedules.clear();
  for (const std::string& word : words_of(list)) {
    const auto& names = config::plan_names_of<config::PipelineOrder>();
    const auto found = std::find(names.begin(), names.end(), word);
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    TRIB_REQUIRE(found != names.end(), .what = "app: no such schedule", .where = "--schedules",
                 .found = word, .expected = str("some of ", known));
    space.schedules.push_back(static_cast<config::PipelineOrder>(found - names.begin()));
  }
}

PlanningProblem problem_of(const ModelPlanning& arguments, const Setting& setting) {
  PlanningProblem problem{.model = read_graph(setting.model),
                          .cluster = find_cluster(arguments),
                          .batches = {},
                          .frozen = setting.frozen};
  problem.devices = arguments.devices > 0 ? arguments.devices : problem.cluster.devices;
  TRIB_REQUIRE(arguments.devices > 0 || problem.devices <= 4096,
               .what = "app: cluster is larger than a plan is likely meant for",
               .where = "cluster.devices", .found = str(problem.devices),
               .expected = "at most 4096", .fix = "give --devices N");
  problem.batches = draw_batches(arguments, setting, !plan::encoders_of(problem).empty());
  problem.space.runnable = arguments.runnable;
  narrow_schedules(arguments.schedules, problem.space);
  return problem;
}

Json to_json(const PlanningProblem& problem, const plan::PlanSearch& search, double seconds,
             std::int64_t keep) {
  Json plans = Json::array();
  for (const FoundPlan& found : search.plans) {
    if (std::ssize(plans) == keep) break;
    plans.push_back({{"plan", describe(problem, found.choice)},
                     {"step_s", 1e-9 * static_cast<double>(found.step.count)},
                     {"deviation_s", 1e-9 * static_cast<double>(found.deviation.count)},
                     {"percentile_95_s", 1e-9 * static_cast<double>(found.percentile_95.count)},
                     {"gap", gap_above(found.step, search.certificate.lower_bound)},
                     {"devices", found.choice.devices()},
                     {"peak_bytes", found.peak.count},
                     {"fullest", found.fullest},
                     {"links_shared", found.links_shared}});
  }
  const plan::Certificate& certificate = search.certificate;
  return {{"method", kExact},
          {"status", plan::name_of(certificate.status)},
          {"value", 1e-9 * static_cast<double>(certificate.value.count)},
          {"lower_bound", 1e-9 * static_cast<double>(certificate.lower_bound.count)},
          {"gap", search.plans.empty() ? 0 : certificate.gap()},
          {"evaluations", certificate.evaluations},
          {"milliseconds", 1e3 * seconds},
          {"limit", certificate.limit},
          {"cells", search.cells},
          {"estimates", search.estimates},
          {"judged", search.judged},
          {"plans", plans}};
}

void print_as_text(const PlanningProblem& problem, const plan::PlanSearch& search, double seconds,
                   std::int64_t keep) {
  const plan::Certificate& certificate = search.certificate;
  std::cout << kExact << ": step " << in_milliseconds(certificate.value) << " on "
            << problem.devices << " devices of " << problem.cluster.name << "; no plan is below "
            << in_milliseconds(certificate.lower_bound) << ", gap "
            << in_percent(certificate.gap(), 2) << " (" << plan::name_of(certificate.status)
            << ")\n"
            << search.cells << " cells, " << search.estimates << " estimates, " << search.judged
            << " plans run on batches, " << certificate.evaluations << " steps simulated, "
            << str(std::fixed, std::setprecision(0), 1e3 * seconds) << " ms\n";
  std::int64_t rank = 0;
  for (const FoundPlan& found : search.plans) {
    if (rank++ == keep) break;
    std::cout << std::setw(2) << rank << ". " << in_milliseconds(found.step) << " +- "
              << in_milliseconds(found.deviation) << ", gap "
              << in_percent(gap_above(found.step, certificate.lower_bound), 2) << ", "
              << found.choice.devices() << " devices, " << in_gibibytes(found.peak) << " ("
              << found.fullest << "): " << describe(problem, found.choice) << '\n';
  }
  if (!search.plans.front().links_shared)
    std::cout << "messages were timed as if each were alone: the plans are too large to simulate "
                 "links that are shared within the budget\n";
}

void print_explanation(const plan::PlanExplanation& explanation) {
  std::cout << "what limits the best plan, step " << in_milliseconds(explanation.step) << ":\n"
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

Json to_json(const plan::PlanExplanation& explanation) {
  Json json{{"step_s", 1e-9 * static_cast<double>(explanation.step.count)},
            {"busy", explanation.busy},
            {"communication", explanation.communication},
            {"fullest", explanation.fullest},
            {"available_bytes", explanation.available.count}};
  for (const auto& [kind, time] : explanation.critical_path)
    json["critical_path_s"][kind] = 1e-9 * static_cast<double>(time.count);
  for (const auto& [cause, share] : explanation.idle) json["idle"][cause] = share;
  for (const auto& [holder, bytes] : explanation.memory) json["memory"][holder] = bytes.count;
  json["remedies"] = Json::array();
  for (const plan::Remedy& remedy : explanation.remedies)
    json["remedies"].push_back({{"change", remedy.change},
                                {"step_s", 1e-9 * static_cast<double>(remedy.step.count)},
                                {"gain", remedy.gain}});
  return json;
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
  replace_file(real_file_system(), arguments.output, config::write_plan(best));
}

}  // namespace

ExitCode plan_model(const ModelPlanning& arguments) {
  check_options(arguments);
  const Setting setting = read_setting(arguments);
  const PlanningProblem problem = problem_of(arguments, setting);
  const Stopwatch watch;
  const plan::PlanSearch search =
      search_plan(problem, {.candidates = {.keep = arguments.candidates}});
  const double seconds = watch.seconds();
  if (search.plans.empty()) {
    if (arguments.json) std::cout << to_json(problem, search, seconds, 0).dump() << '\n';
    TRIB_RAISE(Fault::kResource, .what = "plan: no plan fits",
               .where = str(problem.devices, " devices of ", problem.cluster.name),
               .found = search.certificate.limit);
  }
  if (!arguments.output.empty()) write_best(arguments, setting, search);
  std::optional<plan::PlanExplanation> explanation;
  if (arguments.explain)
    explanation = explain_plan(problem, search.plans.front(), kExplainedBatches);
  if (arguments.json) {
    Json json = to_json(problem, search, seconds, arguments.keep);
    if (explanation) json["explanation"] = to_json(*explanation);
    std::cout << json.dump() << '\n';
  } else {
    print_as_text(problem, search, seconds, arguments.keep);
    if (explanation) print_explanation(*explanation);
  }
  return ExitCode::kDone;
}

plan::TrainingProblem cost_table_of(const ModelPlanning& arguments) {
  check_options(arguments);
  const Setting setting = read_setting(arguments);
  const PlanningProblem problem = problem_of(arguments, setting);
  return plan::problem_of_model(
      problem.model, problem.cluster,
      {.devices = problem.devices, .batches = problem.batches, .frozen = setting.frozen});
}

}  // namespace tributary::app
