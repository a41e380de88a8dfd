#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/planning/plan_model.h"
#include "app/cli/planning/plan_published.h"
#include "core/error.h"
#include "core/json.h"
#include "studies/methods/read_cost_table.h"

namespace tributary::app {
namespace {

/// A cost table says so in its `format`; what cannot be read is told by the reader of its kind.
bool is_cost_table(const std::string& path) {
  if (std::filesystem::is_directory(path) || std::filesystem::path(path).extension() != ".json")
    return false;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  TRIB_REQUIRE(file.is_open() && !file.bad(), .what = "app: file cannot be read", .where = path,
               .expected = "a cost table, or a module graph");
  const Json json = parse_json(text, path);
  // Compared as JSON: a format that is no text is another one, and its reader says so.
  return json.is_object() && json.contains("format") &&
         json["format"] == Json(studies::kCostTableFormat);
}

ExitCode run_plan(const ModelPlanning& arguments) {
  TRIB_REQUIRE(std::filesystem::exists(arguments.path), .what = "app: nothing to plan",
               .where = arguments.path, .found = "no such file",
               .expected =
                   "a run configuration (.yaml), a model directory, a module graph or a "
                   "cost table (.json)",
               .fix = "correct the path");
  const bool is_table = is_cost_table(arguments.path);
  if (!is_table && (arguments.method.empty() || arguments.method == kSearch ||
                    arguments.method == kFormerSearch))
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
      "search (also called exact), for models alone; published_objective, the optimum of DFLOP's "
      "formula for a step; a published system by its name; or all of these but search");
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
