#include "app/requests/plan_request.h"

#include <filesystem>

#include "app/engine/engine.h"
#include "app/requests/measured_machine.h"
#include "config/artifact/check_profile.h"
#include "config/run/adapter_layers.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "plan/problem/planning_problem.h"

namespace tributary::app {
namespace {

bool is_run_config(const PlanOptions& options) {
  const std::string extension = std::filesystem::path(options.model.text).extension();
  return options.given.caller() == Caller::kCommandLine &&
         (extension == ".yaml" || extension == ".yml");
}

/// Reads a run configuration and takes its model, samples and frozen modules into the options. For
/// a model it returns a run configuration with the defaults.
AdaptedRun take_run_config(PlanOptions& options) {
  if (!is_run_config(options)) return {};
  config::RunConfig run = config::read_run_config(options.model.text);
  TRIB_REQUIRE(std::filesystem::exists(run.model.path),
               .what = "app: model of the run configuration is not there",
               .where = options.model.text + " model.path", .found = run.model.path,
               .expected = str("a directory with a config.json, or a module graph, at ",
                               std::filesystem::absolute(run.model.path).string()),
               .fix = "its paths are seen from the current folder: run there, or give a whole one");
  AdaptedRun adapted = with_adapters(run);
  run = adapted.run;
  options.model.text = run.model.path;
  if (options.global_samples == 0) options.global_samples = run.batch.global_samples;
  if (options.tokens == 0) options.tokens = run.batch.capacity_tokens.count;
  options.freeze.insert(options.freeze.begin(), run.model.freeze.begin(), run.model.freeze.end());
  adapted.run.model.freeze = options.freeze;
  return adapted;
}

void refuse_idle_options(const PlanRequest& request) {
  const GivenOptions& given = request.options.given;
  TRIB_REQUIRE(request.profile || request.options.threads == 0,
               .what = "app: threads count with measured costs alone",
               .where = given.name("--threads"), .found = str(request.options.threads),
               .expected = "a profile beside it");
  if (request.recorded)
    given.refuse({"--tokens"}, str(given.name("--lengths"), ", which says it of each sample"),
                 "one of both");
  if (!plan::encoders_of({.model = request.model, .cluster = {}, .batches = {}}).empty())
    given.refuse({"--tokens"}, "a model with an encoder",
                 str(given.name("--lengths"), " for its samples, or their mixture"));
}

}  // namespace

std::vector<RequestField> fields_of(PlanOptions& options) {
  return {
      {.name = "model",
       .value = &options.model,
       .help = "what to place: a run configuration (.yaml), a directory with a config.json, a "
               "module graph, or a cost table (docs/formats)",
       .option = "CONFIG",
       .is_required = true},
      {.name = "cluster",
       .value = &options.cluster,
       .help = "devices and links, docs/formats/cluster.md; default: nodes of 8 A100-80, "
               "configs/clusters/a100_8.yaml"},
      {.name = "profile",
       .value = &options.profile,
       .help = "measured layers and collectives, a file of `tributary profile`; with --cluster "
               "that says devices, memory and links between stages"},
      {.name = "threads",
       .value = &options.threads,
       .help = "compute threads of each rank, with --profile of a CPU; default: an equal part of "
               "the cores",
       .range = {0, 1 << 16}},
      {.name = "devices",
       .value = &options.devices,
       .help = "of the cluster to use; default: all, or one node of a cluster of more than 4096",
       .range = {1, 1 << 20}},
      {.name = "method",
       .value = &options.method,
       .help = "search (also called exact), for models alone; published_objective, the optimum of "
               "DFLOP's formula for a step; a published system by its name; or all of these but "
               "search",
       .in_python = false},
      {.name = "global_samples",
       .value = &options.global_samples,
       .help = "of a step; default: the run configuration's, or 512",
       .range = {1, 1 << 20}},
      {.name = "tokens",
       .value = &options.tokens,
       .help = "of each sample of a text model; default: the run configuration's capacity, or "
               "4096",
       .range = {1, 1 << 24}},
      {.name = "lengths",
       .value = &options.lengths,
       .help = "recorded sizes: a shape histogram (.json), or a sample a line: tokens, patches, "
               "images or frames, audio positions, clips; default: the mixture of photos, "
               "documents and videos where the model has an encoder, with sound where it encodes "
               "both"},
      {.name = "batches",
       .value = &options.batches,
       .help = "drawn to judge plans by",
       .range = {1, 1000}},
      {.name = "seed",
       .value = &options.seed,
       .help = "of the batches",
       .range = {0, 9007199254740992.0}},
      {.name = "freeze",
       .value = &options.freeze,
       .help = "modules that do not train, a comma between them"},
      {.name = "schedules",
       .value = &options.schedules,
       .help = "orders of the passes to choose from, a comma between them"},
      {.name = "axes",
       .value = &options.axes,
       .help = "that may have several ranks, of tp, pp, dp, cp, ulysses, ep; default: all, cp and "
               "ulysses for samples of 8192 tokens and more"},
      {.name = "candidates",
       .value = &options.candidates,
       .help = "plans that are simulated; 0: 200 of 2,048 samples a step, more of fewer, at most "
               "1,600",
       .range = {0, 100'000}},
      {.name = "runnable",
       .value = &options.runnable,
       .help = "choose among plans that `train` runs alone"},
      {.name = "keep",  // each method checks its own range
       .value = &options.keep,
       .help = "best plans to print"},
      {.name = "explain",
       .value = &options.explain,
       .help = "say what limits the best plan and what would help most"},
      {.name = "output",
       .value = &options.output,
       .help = "write the best plan, docs/formats/plan.md",
       .option = "-o,--output",
       .in_python = false},
      {.name = "json",
       .value = &options.json,
       .help = "print JSON: status, value and lower_bound [s], gap, evaluations, milliseconds, "
               "limit, plans; of published methods a list, an object for each",
       .in_python = false},
  };
}

PlanRequest read_request(PlanOptions options) {
  check_ranges(fields_of(options), options.given);
  AdaptedRun adapted = take_run_config(options);
  if (options.global_samples == 0) options.global_samples = 512;
  if (options.tokens == 0) options.tokens = 4096;
  const config::ModelSection section = adapted.run.model;
  const config::TrainingPlan training = config::training_of(adapted.run);
  PlanRequest request{.options = options,
                      .model = read_model(options.model),
                      .trainer = TrainerCheck(options.model, std::move(adapted.run)),
                      .training = training};
  if (section.has_adapters())
    request.model = config::add_adapters(std::move(request.model), section, adapted.maps);
  const PlanOptions& asked = request.options;
  if (!asked.cluster.empty()) request.cluster = read_cluster(asked.cluster);
  if (!asked.profile.empty()) {
    request.profile = read_profile(asked.profile);
    if (asked.model.is_path)
      check_profile_model(*request.profile, asked.profile.where(), asked.model.text);
    config::check_profile_adapter(*request.profile, config::adapter_key(section),
                                  asked.profile.where());
  }
  request.recorded = read_lengths(asked.lengths, asked.length_rows, request.model);
  refuse_idle_options(request);
  return request;
}

}  // namespace tributary::app
