#include "app/requests/simulate_request.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/engine/engine.h"
#include "app/requests/measured_machine.h"
#include "config/artifact/check_profile.h"
#include "config/run/adapter_layers.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/json.h"
#include "simulate/simulate.h"

namespace tributary::app {
namespace {

/// Refuses options that have no effect beside the others.
void refuse_idle_options(const GivenOptions& given) {
  if (given.has("--workload"))
    given.refuse_all_but(
        {"--workload", "--cluster", "--steps", "--seed", "--threads", "--scheduler-ms",
         "--stragglers", "--straggler-factor", "--anomalies", "--anomaly-factor", "--failure-hours",
         "--restart-seconds", "--checkpoint-steps", "--output", "--json"},
        given.name("--workload") + ", which says what a model, samples and layers say of a plan");
  given.require({"--skip"}, "--run");
  if (given.has("--run"))
    given.refuse({"--steps", "--lengths", "--mixture"},
                 given.name("--run") + ", which has steps and microbatches", "one of both");
  given.require({"--straggler-factor"}, "--stragglers");
  given.require({"--stragglers"}, "--straggler-factor");
  given.require({"--anomaly-factor"}, "--anomalies");
  given.require({"--anomalies"}, "--anomaly-factor");
  given.require({"--restart-seconds", "--checkpoint-steps"}, "--failure-hours");
  if (given.has("--lengths")) given.refuse({"--mixture"}, given.name("--lengths"), "one of both");
}

/// The model that the user gave, or else the one that the plan names relative to its own folder.
Document find_model(const SimulateOptions& options, const config::Plan& plan) {
  if (!options.model.empty()) return options.model;
  const std::string& plan_name = options.plan.where();
  const std::string option = options.given.name("--model");
  TRIB_REQUIRE(!plan.model.empty(), .what = "app: plan does not say which model it places",
               .where = plan_name + " model", .found = "no such key",
               .expected = "a directory with a config.json, or a module graph",
               .fix = str("add the key to the plan, or give ", option));
  const auto path = std::filesystem::path(plan_name).parent_path() / plan.model;
  TRIB_REQUIRE(std::filesystem::exists(path), .what = "app: model of the plan is not there",
               .where = plan_name + " model", .found = plan.model,
               .expected = str("a directory with a config.json, or a module graph, at ",
                               std::filesystem::absolute(path).lexically_normal().string()),
               .fix = str("correct the key, or give ", option));
  return {.text = path.string()};
}

/// The number of compute threads of each rank of a run, from its environment.json.
std::int64_t threads_of_run(const std::string& run) {
  const std::string path = run + "/environment.json";
  const Json environment = read_given_json(
      path, {.what = "app: run does not say its threads", .expected = "environment.json"});
  const bool is_there = environment.is_object() && environment.contains("threads") &&
                        environment["threads"].is_number_unsigned();
  TRIB_REQUIRE(is_there, .what = "app: run does not say its threads", .where = path,
               .expected = "a whole number `threads`");
  return environment["threads"].get<std::int64_t>();
}

/// Adds the adapters that the plan trains to the layers of its model.
void add_adapters(SimulateRequest& request) {
  config::RunConfig run;
  run.model = config::section_of(request.plan);
  if (!run.model.has_adapters()) return;
  const Document& model = request.options.model;
  TRIB_REQUIRE(model.is_path && std::filesystem::is_directory(model.text),
               .what = "app: adapters need the linear maps of a model",
               .where = request.options.plan.where() + " training.adapter", .found = model.where(),
               .expected = "a directory with a config.json");
  run.model.path = model.text;
  const AdaptedRun adapted = with_adapters(run);
  request.model = config::add_adapters(std::move(request.model), adapted.run.model, adapted.maps);
}

/// Reads the files of a plan's simulation other than the cluster.
void read_plan_files(SimulateRequest& request) {
  SimulateOptions& options = request.options;
  const bool is_python = options.given.caller() == Caller::kPython;
  TRIB_REQUIRE(!options.plan.empty(), .what = "app: nothing to simulate", .where = "simulate",
               .expected = is_python ? "plan or workload" : "PLAN.json, or --workload FILE",
               .fix = is_python ? "" : "see tributary simulate --help");
  request.plan = read_plan(options.plan);
  options.model = find_model(options, request.plan);
  request.model = read_model(options.model);
  add_adapters(request);
  if (!options.profile.empty()) {
    request.profile = read_profile(options.profile);
    if (options.model.is_path)
      check_profile_model(*request.profile, options.profile.where(), options.model.text);
    config::check_profile_adapter(*request.profile,
                                  config::adapter_key(config::section_of(request.plan)),
                                  options.profile.where());
  }
  if (options.given.has("--run")) {
    request.run = simulate::read_recorded_steps(options.run, options.skip);
    request.media = simulate::read_recorded_media(options.run, options.skip);
    if (options.threads == 0) options.threads = threads_of_run(options.run);
  }
  request.recorded = read_lengths(options.lengths, options.length_rows, request.model);
}

/// Threads have an effect only where the number of cores is known.
void refuse_idle_threads(const SimulateRequest& request) {
  const GivenOptions& given = request.options.given;
  if (!request.profile && !(request.cluster && request.cluster->cores > 0))
    given.refuse({"--threads"}, "a cluster that says no cores",
                 given.name("--profile") + ", or a cluster with `cores`");
}

}  // namespace

std::vector<RequestField> fields_of(SimulateOptions& options) {
  simulate::Disturbance& disturbance = options.disturbance;
  return {
      {.name = "plan",
       .value = &options.plan,
       .help = "where and how every module runs; needed without --workload",
       .option = "PLAN.json"},
      {.name = "workload",
       .value = &options.workload,
       .help = "in place of a plan, a workload of SimAI (docs/formats/simai_workload.md)"},
      {.name = "cluster",
       .value = &options.cluster,
       .help = "devices and links; default: nodes of 8 A100-80, configs/clusters/a100_8.yaml"},
      {.name = "profile",
       .value = &options.profile,
       .help = "measured layers and collectives, a file of `tributary profile`; with --cluster "
               "that says devices, memory and links between stages"},
      {.name = "run",
       .value = &options.run,
       .help = "directory of a run: simulate its steps, with the microbatches that they had"},
      {.name = "skip",
       .value = &options.skip,
       .help = "steps at the beginning of --run to leave out"},
      {.name = "threads",
       .value = &options.threads,
       .help = "compute threads of each rank, where --profile is of a CPU or the cluster says its "
               "cores; default: those of --run, or an equal part of the cores"},
      {.name = "model",
       .value = &options.model,
       .help = "directory with a config.json, or a module graph; default: the plan's `model`"},
      {.name = "steps",
       .value = &options.steps,
       .help = "steps to simulate",
       .range = {1, simulate::kMaxSteps}},
      {.name = "seed", .value = &options.seed, .help = "of samples and disturbances"},
      {.name = "lengths",
       .value = &options.lengths,
       .help = "recorded sizes: a shape histogram (.json), or a sample a line: tokens, patches, "
               "images or frames, audio positions, clips"},
      {.name = "mixture",
       .value = &options.mixture,
       .help = "draw photos, documents, groups of pictures and videos, with sound where the model "
               "encodes it beside images; the default: the samples that the plan was judged with, "
               "else these where it has an encoder, else full microbatches"},
      {.name = "unfused_attention",
       .value = &options.unfused_attention,
       .help = "attention by products with the scores in memory, not by one kernel"},
      {.name = "sequence_parallel",
       .value = &options.sequence_parallel,
       .help = "with tp of the backbone, every rank keeps what lies between the products whole",
       .option = "--no-sequence-parallel"},
      {.name = "reduce_dtype",
       .value = &options.reduce_dtype,
       .help = "of gradients, as parallel.reduce_dtype: float32, or same as the parameters"},
      {.name = "pool",
       .value = &options.pool,
       .help = "microbatches that the pool keeps of an encoder of placement flow which gives "
               "single ones, not whole batches (--ahead)",
       .range = {1, 1 << 20}},
      {.name = "ahead",
       .value = &options.ahead,
       .help = "whole batches that frozen encoders of placement flow may be ahead: 0 encodes each "
               "before its step, 1 beside the step before; -1: microbatches, as far as the pool "
               "lets them",
       .range = {-1, 1000},
       .unit = "batches"},
      {.name = "scheduler_ms",
       .value = &options.scheduler_ms,
       .help = "time that the step plan takes beside a step [ms]",
       .range = {0, 1e9}},
      {.name = "stragglers",
       .value = &disturbance.straggler_share,
       .help = "share of slow ranks in each step, with --straggler-factor",
       .range = {0, 1}},
      {.name = "straggler_factor",
       .value = &disturbance.straggler_factor,
       .help = "how much longer their passes take",
       .range = {1, simulate::kMaxSlowdown}},
      {.name = "anomalies",
       .value = &disturbance.anomaly_share,
       .help = "share of single passes that are slow, with --anomaly-factor",
       .range = {0, 1}},
      {.name = "anomaly_factor",
       .value = &disturbance.anomaly_factor,
       .help = "how much longer they take",
       .range = {1, simulate::kMaxSlowdown}},
      {.name = "failure_hours",
       .value = &disturbance.hours_between_failures,
       .help = "mean time between failures of one rank [h]; 0: none fails",
       .range = {0, simulate::kLongestTime}},
      {.name = "restart_seconds",
       .value = &disturbance.restart_s,
       .help = "from a failure to the next step [s]",
       .range = {0, simulate::kLongestTime}},
      {.name = "checkpoint_steps",
       .value = &disturbance.checkpoint_steps,
       .help = "steps between checkpoints",
       .range = {1, simulate::kLongestTime}},
      {.name = "output",
       .value = &options.output,
       .help = "write the median step as a trace, which Perfetto and `tributary report` draw",
       .option = "-o,--output",
       .in_python = false},
      {.name = "json",
       .value = &options.json,
       .help = "print one JSON object: the summary of docs/formats/trace.md, but for its lanes",
       .in_python = false},
  };
}

SimulateRequest read_request(SimulateOptions options) {
  refuse_idle_options(options.given);
  check_ranges(fields_of(options), options.given);
  SimulateRequest request{.options = std::move(options)};
  const SimulateOptions& asked = request.options;
  if (!asked.cluster.empty()) request.cluster = read_cluster(asked.cluster);
  if (asked.given.has("--workload")) {
    request.workload = simulate::read_simai_workload(asked.workload);
  } else {
    read_plan_files(request);
  }
  refuse_idle_threads(request);
  return request;
}

}  // namespace tributary::app
