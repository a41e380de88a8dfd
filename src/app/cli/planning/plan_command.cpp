#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/answer/certificate_json.h"
#include "app/answer/plan_answer.h"
#include "app/answer/search_answer.h"
#include "app/cli/commands.h"
#include "app/cli/planning/plan_model.h"
#include "core/error.h"
#include "core/json.h"
#include "plan/baseline/read_cost_table.h"

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

/// A cost table says so in its `format`; what cannot be read is told by the reader of its kind.
bool is_cost_table(const std::string& path) {
  if (std::filesystem::is_directory(path) || std::filesystem::path(path).extension() != ".json")
    return false;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  TRIB_REQUIRE(file.is_open() && !file.bad(), .what = "app: file cannot be read", .where = path,
               .expected = "a cost table, or a module graph");
  const Json json = parse_json(text, path);
  return json.is_object() && json.value("format", "") == plan::kCostTableFormat;
}

/// What published methods do with a cost table, or with a model as one.
ExitCode plan_published(const ModelPlanning& arguments, bool is_table) {
  if (is_table)
    arguments.given.refuse_all_but({"CONFIG", "--method", "--keep", "--json"},
                                   "a cost table, which says all the rest");
  TRIB_REQUIRE(arguments.output.empty() && !arguments.explain,
               .what = "app: published methods answer with degrees alone",
               .where = arguments.explain ? "--explain" : "--output",
               .found = str("method ", arguments.method.empty() ? kPublishedObjective
                                                                : arguments.method.c_str()),
               .expected = "neither of both", .fix = str("plan a model by --method ", kExact));
  SearchRequest request{.keep = arguments.keep, .table = arguments.path};
  if (!arguments.method.empty()) request.method = arguments.method;
  check_request(request);
  const auto& [problem, note] = is_table
                                    ? ModelTable{.problem = plan::read_cost_table(arguments.path)}
                                    : cost_table_of(arguments);
  const std::vector<SearchAnswer> answers = answer_search(request, problem);
  // One method without a plan is no answer; among all it is one beside others.
  const bool has_plan = request.method == kAllMethods || !answers.front().plans.empty();
  if (arguments.json) {
    Json list = Json::array();
    for (const SearchAnswer& answer : answers) list.push_back(to_json(answer));
    std::cout << list.dump() << '\n';
  } else if (has_plan) {
    if (!note.empty()) std::cout << note << '\n';
    for (const SearchAnswer& answer : answers) print_as_text(answer);
  }
  if (!has_plan)
    TRIB_RAISE(Fault::kResource, .what = "plan: no plan fits",
               .where = str("method ", request.method, ", ", problem.costs.devices, " devices"),
               .found = answers.front().certificate.limit);
  return ExitCode::kDone;
}

ExitCode run_plan(const ModelPlanning& arguments) {
  TRIB_REQUIRE(std::filesystem::exists(arguments.path), .what = "app: nothing to plan",
               .where = arguments.path, .found = "no such file",
               .expected =
                   "a run configuration (.yaml), a model directory, a module graph or a "
                   "cost table (.json)",
               .fix = "correct the path");
  const bool is_table = is_cost_table(arguments.path);
  if (!is_table && (arguments.method.empty() || arguments.method == kExact))
    return plan_model(arguments);
  return plan_published(arguments, is_table);
}

}  // namespace

Run declare_plan(Verb& verb) {
  const auto arguments = std::make_shared<ModelPlanning>();
  verb.positional("CONFIG", arguments->path,
                  "what to place: a run configuration (.yaml), a directory with a config.json, a "
                  "module graph, or a cost table (docs/formats)");
  verb.option("--cluster", arguments->cluster,
              "devices and links, docs/formats/cluster.md; default: nodes of 8 A100-80, "
              "configs/clusters/a100_8.yaml");
  verb.option("--profile", arguments->profile,
              "measured layers and collectives, a file of `tributary profile`; with --cluster that "
              "says devices, memory and links between stages");
  verb.option("--threads", arguments->threads,
              "compute threads of each rank, with --profile of a CPU; default: an equal part of "
              "the cores");
  verb.option("--devices", arguments->devices,
              "of the cluster to use; default: all, or one node of a cluster of more than 4096");
  verb.option(
      "--method", arguments->method,
      "exact, for models alone; published_objective (proven optimal); a published system by "
      "its name; or all of these but exact");
  verb.option("--global-samples", arguments->global_samples,
              "of a step; default: the run configuration's, or 512");
  verb.option("--tokens", arguments->tokens,
              "of each sample of a text model; default: the run configuration's capacity, or 4096");
  verb.option("--lengths", arguments->lengths,
              "recorded sizes: a shape histogram (.json), or a sample a line: tokens, patches, "
              "images or frames, audio positions, clips; default: the mixture of photos, "
              "documents and videos where the model has an encoder, with sound where it encodes "
              "both");
  verb.option("--batches", arguments->batches, "drawn to judge plans by");
  verb.option("--seed", arguments->seed, "of the batches");
  verb.option("--freeze", arguments->freeze, "modules that do not train, a comma between them");
  verb.option("--schedules", arguments->schedules,
              "orders of the passes to choose from, a comma between them");
  verb.option("--axes", arguments->axes,
              "that may have several ranks, of tp, pp, dp, cp, ulysses, ep; default: all, cp and "
              "ulysses for samples of 8192 tokens and more");
  verb.option(
      "--candidates", arguments->candidates,
      "plans that are simulated; 0: 200 of 2,048 samples a step, more of fewer, at most 1,600");
  verb.flag("--runnable", arguments->runnable, "choose among plans that `train` runs alone");
  verb.option("--keep", arguments->keep, "best plans to print");
  verb.flag("--explain", arguments->explain,
            "say what limits the best plan and what would help most");
  verb.option("-o,--output", arguments->output, "write the best plan, docs/formats/plan.md");
  verb.flag("--json", arguments->json,
            "print JSON: status, value and lower_bound [s], gap, evaluations, milliseconds, limit, "
            "plans; of published methods a list, an object for each");
  verb.example(
      "tributary plan configs/demo_model --cluster configs/clusters/cpu_2.yaml -o plan.json\n"
      "  tributary plan configs/demo_model --cluster configs/clusters/a100_8.yaml --method all\n"
      "  tributary plan configs/studies/synthetic_8b.json --method all");
  arguments->given = verb.given();
  return [arguments] { return run_plan(*arguments); };
}

}  // namespace tributary::app
