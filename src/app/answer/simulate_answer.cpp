#include "app/answer/simulate_answer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/answer/measured_machine.h"
#include "app/answer/standard_cluster.h"
#include "config/plan/plan_digest.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/json.h"
#include "cost/watched_costs.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/engine/run_ahead.h"
#include "simulate/simai/simulate_workload.h"
#include "simulate/trace_of.h"

namespace tributary::app {
namespace {

std::int64_t ranks_of(const config::Plan& plan) {
  std::int64_t most = 0;
  for (const config::ModulePlan& module : plan.modules)
    for (const std::int64_t rank : module.ranks) most = std::max(most, rank + 1);
  return most;
}

MeasuredMachine find_costs(const SimulateRequest& request) {
  const std::int64_t ranks = ranks_of(request.plan);
  if (request.profile)
    return measured_machine(*request.profile, request.profile_name, ranks, request.threads,
                            request.cluster, request.caller);
  config::Cluster cluster = request.cluster ? *request.cluster : standard_cluster();
  const auto costs = std::make_shared<const cost::ClusterCosts>(cluster);
  return {std::move(cluster), costs};
}

struct FoundSamples {
  simulate::SampleSource source;
  std::string words;  // what they are
};

/// Recorded sizes or the mixture where they are asked for; else what the plan was judged with; else
/// the mixture where there is an encoder, and full microbatches where the backbone is alone.
FoundSamples find_samples(const SimulateRequest& request) {
  using Kind = simulate::SampleSource::Kind;
  using config::PlannedSamples;
  const config::PredictedPlan& predicted = request.plan.predicted;
  if (!request.run.empty()) return {{}, "microbatches of the run"};
  if (request.recorded)
    return {{.kind = Kind::kRecorded, .recorded = *request.recorded}, "recorded sizes"};
  const bool has_sound =
      simulate::mixture_sound(request.model) == simulate::MixtureSound::kBesidePictures;
  const std::string mixture = str("drawn from the mixture of photos, documents and videos",
                                  has_sound ? ", with sound" : "");
  if (request.mixture) return {{.kind = Kind::kMixture}, mixture};
  if (predicted.samples == PlannedSamples::kEqual)
    return {{.kind = Kind::kRecorded,
             .recorded = {.sizes = {{.tokens = predicted.sample_tokens.count}}}},
            str(predicted.sample_tokens, " each, as the plan was judged with")};
  const std::string others = predicted.samples == PlannedSamples::kRecorded
                                 ? "; the plan was judged with recorded sizes: give them"
                                 : "";
  if (predicted.samples == PlannedSamples::kMixture || request.plan.modules.size() > 1)
    return {
        {.kind = Kind::kMixture},
        mixture + (predicted.samples == PlannedSamples::kMixture ? ", as the plan was judged with"
                                                                 : others)};
  return {
      {.kind = Kind::kFullMicrobatches},
      str("microbatches full with one sequence of ", request.plan.batch.capacity_tokens, others)};
}

config::ReduceDtype reduce_dtype_of(const std::string& text, const std::string& argument) {
  TRIB_REQUIRE(text == "float32" || text == "same", .what = "app: no such type of gradients",
               .where = argument, .found = escaped(text), .expected = "float32 or same");
  return text == "same" ? config::ReduceDtype::kSame : config::ReduceDtype::kFloat32;
}

/// Threads count where cores are known.
void refuse_idle_threads(const SimulateRequest& request) {
  const GivenOptions& given = request.given;
  if (!request.profile && !(request.cluster && request.cluster->cores > 0))
    given.refuse({"--threads"}, "a cluster that says no cores",
                 given.name("--profile") + ", or a cluster with `cores`");
}

void check_request(const SimulateRequest& request) {
  refuse_idle_threads(request);
  const auto require = [&](bool holds, const char* plain, auto found, const char* expected) {
    TRIB_REQUIRE(holds, .what = "app: value cannot be used",
                 .where = argument_name(request.caller, plain), .found = str(found),
                 .expected = expected);
  };
  TRIB_REQUIRE(request.steps >= 1 && request.steps <= simulate::kMostSteps,
               .what = "app: value cannot be used", .where = argument_name(request.caller, "steps"),
               .found = str(request.steps), .expected = str("1 to ", simulate::kMostSteps));
  require(request.seed >= 0, "seed", request.seed, "0 or above");
  require(request.pool >= 1 && request.pool <= (1 << 20), "pool", request.pool, "1 to 2^20");
  require(request.ahead >= -1 && request.ahead <= 1000, "ahead", request.ahead,
          "-1 to 1000 batches");
  simulate::RunAhead::check_batches_ahead(request.plan, request.ahead,
                                          argument_name(request.caller, "ahead"));
  require(request.threads >= 0, "threads", request.threads, "0 or above");
  require(request.scheduler_ms >= 0 && request.scheduler_ms < 1e9, "scheduler_ms",
          request.scheduler_ms, "0 to 1e9");
  simulate::check_disturbance(request.disturbance, [&](std::string_view name) {
    return argument_name(request.caller, name);
  });
}

/// Whether an encoder gives features to the pool one microbatch after another.
bool fills_pool(const SimulateRequest& request) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(request.plan);
  const schedule::PipelineMap map(pipeline);
  const std::vector<bool> whole_batches = simulate::RunAhead::edges_ahead(request.plan, map);
  for (std::size_t edge = 0; edge < pipeline.edges.size(); ++edge) {
    const std::string& from = pipeline.modules[pipeline.edges[edge].from].name;
    if (request.plan.find(from)->placement != config::Placement::kFlow) continue;
    if (request.ahead < 0 || !whole_batches[edge]) return true;
  }
  return false;
}

/// What counts for nothing with this plan.
void refuse_idle_for_plan(const SimulateRequest& request) {
  const GivenOptions& given = request.given;
  if (given.has("--pool") && !fills_pool(request))
    given.refuse({"--pool"},
                 request.ahead < 0 ? "a plan without a module of placement flow"
                                   : str(given.name("--ahead"), ", which takes whole batches"),
                 "a module of placement flow that gives single microbatches");
  const config::ModulePlan* backbone = request.plan.find("backbone");
  if (backbone != nullptr && backbone->mesh.tp == 1)
    given.refuse({"--no-sequence-parallel", "--sequence-parallel"}, "a backbone of tp 1",
                 "tp above 1");
}

simulate::SimulationOptions options_of(const SimulateRequest& request) {
  return {.steps = request.steps,
          .seed = static_cast<std::uint64_t>(request.seed),
          .disturbance = request.disturbance,
          .network = {.share_links = true,
                      .pool_microbatches = static_cast<int>(request.pool),
                      .threads = request.threads},
          .batches_ahead = static_cast<int>(request.ahead),
          .scheduler = {std::llround(1e6 * request.scheduler_ms)}};
}

/// Compute threads of the ranks of a run, by its environment.json.
std::int64_t threads_of_run(const std::string& run) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  const std::string path = run + "/environment.json";
  const Json environment = parse_json(read_given_file(path, kMostBytes,
                                                      {.what = "app: run does not say its threads",
                                                       .expected = "environment.json"}),
                                      path);
  const bool is_there = environment.is_object() && environment.contains("threads") &&
                        environment["threads"].is_number_unsigned();
  TRIB_REQUIRE(is_there, .what = "app: run does not say its threads", .where = path,
               .expected = "a whole number `threads`");
  return environment["threads"].get<std::int64_t>();
}

}  // namespace

config::ModuleGraph read_graph(const std::string& path) {
  return std::filesystem::is_directory(path) ? config::read_graph_of_model(path)
                                             : config::read_module_graph(path);
}

void take_run(SimulateRequest& request, const std::string& run, std::int64_t skip) {
  TRIB_REQUIRE(skip >= 0, .what = "app: value cannot be used",
               .where = argument_name(request.caller, "skip"), .found = str(skip),
               .expected = "0 or above");
  request.run = simulate::read_recorded_steps(run, skip);
  if (request.threads == 0) request.threads = threads_of_run(run);
}

std::string find_model(const std::string& given, const config::Plan& plan,
                       const std::string& plan_path, Caller caller) {
  std::filesystem::path path = given;
  if (path.empty() && !plan.model.empty())
    path = std::filesystem::path(plan_path).parent_path() / plan.model;
  TRIB_REQUIRE(!path.empty(), .what = "app: plan does not say which model it places",
               .where = str(plan_path, " model"), .found = "no such key",
               .expected = "a directory with a config.json, or a module graph",
               .fix = str("add the key to the plan, or give ", argument_name(caller, "model")));
  TRIB_REQUIRE(!given.empty() || std::filesystem::exists(path),
               .what = "app: model of the plan is not there", .where = str(plan_path, " model"),
               .found = plan.model,
               .expected = str("a directory with a config.json, or a module graph, at ",
                               std::filesystem::absolute(path).lexically_normal().string()),
               .fix = str("correct the key, or give ", argument_name(caller, "model")));
  return path.string();
}

simulate::RecordedSizes read_sizes(const std::string& path) {
  if (std::filesystem::path(path).extension() == ".json")
    return simulate::sizes_of(config::read_shape_histogram(path));
  return sizes_of(read_table(path));
}

simulate::RecordedSizes sizes_of(const NumberTable& table) {
  constexpr std::int64_t kColumns = 5;
  TRIB_REQUIRE(table.width <= kColumns, .what = "app: too many numbers in a line",
               .where = table.place_of(0), .found = str(table.width),
               .expected = "tokens, patches, items, audio positions, clips");
  simulate::RecordedSizes recorded;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::int64_t numbers[kColumns] = {1, 0, 0, 0, 0};
    for (std::int64_t column = 0; column < table.width; ++column) {
      const double number = table.values[row * table.width + column];
      const double least = column == 0 ? 1 : 0;
      TRIB_REQUIRE(number >= least && number <= 1e9 && number == std::floor(number),
                   .what = "app: size of a sample cannot be used", .where = table.place_of(row),
                   .found = str(number), .expected = str("a whole number, ", least, " to 1e9"));
      numbers[column] = static_cast<std::int64_t>(number);
    }
    if (numbers[1] > 0) numbers[2] = std::max<std::int64_t>(1, numbers[2]);
    if (numbers[3] > 0) numbers[4] = std::max<std::int64_t>(1, numbers[4]);
    recorded.sizes.push_back({.tokens = numbers[0],
                              .patches = numbers[1],
                              .items = numbers[2],
                              .frames = numbers[3],
                              .clips = numbers[4]});
  }
  return recorded;
}

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

config::Trace answer_simulate(const SimulateRequest& request) {
  check_request(request);
  refuse_idle_for_plan(request);
  const config::Plan& plan = request.plan;
  const auto [cluster, costs_of_machine] = find_costs(request);
  const auto source = std::make_shared<const cost::WatchedCosts>(costs_of_machine);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const cost::LayerStageCosts costs(
      plan, request.model, cluster, source, pipeline,
      {.attention =
           request.unfused_attention ? cost::AttentionCore::kScores : cost::AttentionCore::kFused,
       .sequence_parallel = request.sequence_parallel,
       .reduce_dtype =
           reduce_dtype_of(request.reduce_dtype, argument_name(request.caller, "reduce_dtype"))});
  const FoundSamples samples = find_samples(request);
  simulate::SimulationOptions options = options_of(request);
  options.samples = samples.source;
  const simulate::Simulation simulation =
      request.run.empty() ? simulate::simulate(plan, costs, cluster, options)
                          : simulate::simulate_recorded(plan, costs, cluster, options, request.run);
  config::Trace trace = simulate::trace_of(simulation, request.plan_name, cluster.name);
  if (request.profile && request.profile->flops_per_s == 0) {  // there is nothing to divide by
    trace.summary.mfu = 0;
    trace.summary.utilisation.clear();
    trace.summary.unknown = {"mfu"};
  }
  trace.summary.plan_digest = config::plan_digest(plan);
  trace.summary.planned_step = plan.predicted.step;
  trace.summary.samples = samples.words;
  trace.summary.beyond_grid = source->beyond_grid();
  return trace;
}

config::Trace answer_workload(const simulate::SimaiWorkload& workload,
                              const SimulateRequest& request) {
  check_request(request);
  const config::Cluster cluster = request.cluster ? *request.cluster : standard_cluster();
  const simulate::Simulation simulation =
      simulate::simulate_workload(workload, cluster, options_of(request));
  return simulate::trace_of_workload(simulation, workload, cluster.name);
}

}  // namespace tributary::app
