#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>

#include "app/cli/commands.h"
#include "app/table/read_table.h"
#include "core/error.h"
#include "core/file/file_system.h"
#include "plan/simulate/trace_of.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::app {
namespace {

struct Arguments {
  std::string plan;
  std::string cluster;
  std::string model;
  std::string output;
  std::string lengths;
  std::int64_t steps = 1;
  std::int64_t seed = 0;
  bool json = false;
  bool mixture = false;
  bool unfused_attention = false;
  bool no_sequence_parallel = false;
  std::int64_t pool = 16;
  double scheduler_ms = 0;
  plan::Disturbance disturbance;
};

/// A cluster of 8-device A100 nodes, where the user names none.
///
/// source: planning.md section 12.5
config::Cluster standard_cluster(std::int64_t ranks) {
  config::Cluster cluster{.name = "8 x A100-80 a node, maker's figures"};
  cluster.devices = (ranks + 7) / 8 * 8;
  cluster.device.name = "A100-80 SXM";
  cluster.device.matrix_flops_per_s = 312e12;
  cluster.device.memory_bytes_per_s = 2.04e12;
  cluster.device.memory = {80'000'000'000};
  cluster.device.reserve = {4'000'000'000};
  cluster.levels = {{.name = "nvlink", .ranks = 8, .bytes_per_s = 300e9, .message_start_s = 1e-6},
                    {.name = "infiniband",
                     .ranks = cluster.devices,
                     .bytes_per_s = 25e9,
                     .message_start_s = 2e-6}};
  return cluster;
}

std::int64_t ranks_of(const config::Plan& plan) {
  std::int64_t most = 0;
  for (const config::ModulePlan& module : plan.modules)
    for (const std::int64_t rank : module.ranks) most = std::max(most, rank + 1);
  return most;
}

config::ModuleGraph read_model(const Arguments& arguments, const config::Plan& plan) {
  std::filesystem::path path = arguments.model;
  if (path.empty() && !plan.model.empty())
    path = std::filesystem::path(arguments.plan).parent_path() / plan.model;
  TRIB_REQUIRE(!path.empty(), .what = "app: plan does not say which model it places",
               .where = str(arguments.plan, " model"), .found = "no such key",
               .expected = "a directory with a config.json, or a module graph",
               .fix = "add the key to the plan, or give --model");
  return std::filesystem::is_directory(path) ? config::read_graph_of_model(path.string())
                                             : config::read_module_graph(path.string());
}

/// A shape histogram; or a sample a line: its tokens, then patches and the number of its images or
/// frames.
plan::RecordedSizes read_sizes(const std::string& path) {
  if (std::filesystem::path(path).extension() == ".json")
    return plan::sizes_of(config::read_shape_histogram(path));
  const NumberTable table = read_table(path);
  TRIB_REQUIRE(table.width <= 3, .what = "app: too many numbers in a line",
               .where = table.place_of(0), .found = str(table.width),
               .expected = "tokens, patches, items");
  plan::RecordedSizes recorded;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::int64_t numbers[3] = {1, 0, 0};
    for (std::int64_t column = 0; column < table.width; ++column) {
      const double number = table.values[row * table.width + column];
      const double least = column == 0 ? 1 : 0;
      TRIB_REQUIRE(number >= least && number <= 1e9 && number == std::floor(number),
                   .what = "app: size of a sample cannot be used", .where = table.place_of(row),
                   .found = str(number), .expected = str("a whole number, ", least, " to 1e9"));
      numbers[column] = static_cast<std::int64_t>(number);
    }
    if (numbers[1] > 0) numbers[2] = std::max<std::int64_t>(1, numbers[2]);
    recorded.sizes.push_back({.tokens = numbers[0], .patches = numbers[1], .items = numbers[2]});
  }
  return recorded;
}

/// Recorded sizes, the mixture, or full microbatches where the backbone is alone.
plan::SampleSource find_samples(const Arguments& arguments, const config::Plan& plan) {
  using Kind = plan::SampleSource::Kind;
  if (!arguments.lengths.empty())
    return {.kind = Kind::kRecorded, .recorded = read_sizes(arguments.lengths)};
  return {.kind = arguments.mixture || plan.modules.size() > 1 ? Kind::kMixture
                                                               : Kind::kFullMicrobatches};
}

std::string milliseconds(Nanoseconds time) {
  return str(std::fixed, std::setprecision(3), 1e-6 * static_cast<double>(time.count), " ms");
}
std::string percent(double share) {
  return str(std::fixed, std::setprecision(1), 100 * share, " %");
}
std::string gibibytes(Bytes bytes) {
  return str(std::fixed, std::setprecision(2), static_cast<double>(bytes.count) / (1 << 30),
             " GiB");
}

void print_as_text(const config::Trace& trace) {
  const config::TraceSummary& summary = trace.summary;
  const double gap = static_cast<double>(summary.step.count) /
                         std::max(1.0, static_cast<double>(summary.lower_bound.count)) -
                     1;
  std::cout << "step " << milliseconds(summary.step) << " on " << summary.ranks << " ranks of "
            << summary.cluster << "; no order of the passes is below "
            << milliseconds(summary.lower_bound) << " (gap " << percent(gap) << ")\n";
  if (summary.steps > 1) {
    std::cout << summary.steps << " steps:";
    for (const auto& [name, time] : summary.distribution)
      std::cout << ' ' << name << ' ' << milliseconds(time);
    std::cout << '\n';
  }
  std::cout << "mfu " << percent(summary.mfu) << ", idle " << percent(summary.idle_share)
            << "; critical path:";
  for (const auto& [kind, time] : summary.critical_path)
    std::cout << ' ' << kind << ' ' << milliseconds(time);
  std::cout << '\n';
  if (summary.failures > 0)
    std::cout << summary.failures << " failures, goodput " << percent(summary.goodput) << '\n';
  if (!summary.out_of_memory.empty())
    std::cout << "does not fit: " << summary.out_of_memory << '\n';
  constexpr std::size_t kMostLanes = 32;
  for (std::size_t lane = 0; lane < std::min(kMostLanes, trace.lanes.size()); ++lane) {
    const config::TraceLane& of = trace.lanes[lane];
    std::cout << of.name << ", " << of.ranks << (of.ranks == 1 ? " rank" : " ranks") << ": peak "
              << gibibytes(of.peak);
    for (const auto& [use, time] : of.uses) std::cout << ", " << use << ' ' << milliseconds(time);
    std::cout << '\n';
  }
  if (trace.lanes.size() > kMostLanes)
    std::cout << "and " << trace.lanes.size() - kMostLanes << " lanes more: --json\n";
}

ExitCode run_simulate(const Arguments& arguments) {
  TRIB_REQUIRE(arguments.seed >= 0 && arguments.pool >= 1 && arguments.pool <= (1 << 20) &&
                   arguments.scheduler_ms >= 0 && arguments.scheduler_ms < 1e9,
               .what = "app: value cannot be used", .where = "--seed, --pool, --scheduler-ms",
               .found = str(arguments.seed, ", ", arguments.pool, ", ", arguments.scheduler_ms),
               .expected = "0 or above, 1 to 2^20, 0 to 1e9");
  const config::Plan plan = config::read_plan(arguments.plan);
  const config::Cluster cluster = arguments.cluster.empty()
                                      ? standard_cluster(ranks_of(plan))
                                      : config::read_cluster(arguments.cluster);
  const config::ModuleGraph model = read_model(arguments, plan);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const plan::LayerStageCosts costs(
      plan, model, cluster, pipeline,
      {.attention =
           arguments.unfused_attention ? plan::AttentionCore::kScores : plan::AttentionCore::kFused,
       .sequence_parallel = !arguments.no_sequence_parallel});
  const plan::Simulation simulation = plan::simulate(
      plan, costs, cluster,
      {.steps = arguments.steps,
       .seed = static_cast<std::uint64_t>(arguments.seed),
       .samples = find_samples(arguments, plan),
       .disturbance = arguments.disturbance,
       .network = {.share_links = true, .pool_microbatches = static_cast<int>(arguments.pool)},
       .scheduler = {std::llround(1e6 * arguments.scheduler_ms)}});
  const config::Trace trace = plan::trace_of(simulation, arguments.plan, cluster.name);
  if (!arguments.output.empty())
    replace_file(real_file_system(), arguments.output, config::write_trace(trace));
  if (arguments.json) {
    std::cout << config::write_summary(trace);
  } else {
    print_as_text(trace);
  }
  return ExitCode::kDone;
}

}  // namespace

Run declare_simulate(Verb& verb) {
  const auto arguments = std::make_shared<Arguments>();
  plan::Disturbance& disturbance = arguments->disturbance;
  verb.positional("PLAN.json", arguments->plan, "where and how every module runs");
  verb.option("--cluster", arguments->cluster,
              "devices and links; default: nodes of 8 A100, by their maker's figures");
  verb.option("--model", arguments->model,
              "directory with a config.json, or a module graph; default: the plan's `model`");
  verb.option("--steps", arguments->steps, "steps to simulate");
  verb.option("--seed", arguments->seed, "of samples and disturbances");
  verb.option("--lengths", arguments->lengths,
              "recorded sizes: a shape histogram (.json), or a sample a line: tokens, patches, "
              "images or frames");
  verb.flag("--mixture", arguments->mixture,
            "draw photos, documents, groups of pictures and videos; the default where the plan has "
            "an encoder, else microbatches are full");
  verb.flag("--unfused-attention", arguments->unfused_attention,
            "attention by products with the scores in memory, not by one kernel");
  verb.flag("--no-sequence-parallel", arguments->no_sequence_parallel,
            "with tp, every rank keeps what lies between the products whole");
  verb.option("--pool", arguments->pool, "microbatches of an encoder that the pool keeps");
  verb.option("--scheduler-ms", arguments->scheduler_ms,
              "time that the step plan takes beside a step [ms]");
  verb.option("--stragglers", disturbance.straggler_share, "share of slow ranks in each step");
  verb.option("--straggler-factor", disturbance.straggler_factor,
              "how much longer their passes take");
  verb.option("--anomalies", disturbance.anomaly_share, "share of single passes that are slow");
  verb.option("--anomaly-factor", disturbance.anomaly_factor, "how much longer they take");
  verb.option("--failure-hours", disturbance.hours_between_failures,
              "mean time between failures of one rank [h]; 0: none fails");
  verb.option("--restart-seconds", disturbance.restart_s, "from a failure to the next step [s]");
  verb.option("--checkpoint-steps", disturbance.checkpoint_steps, "steps between checkpoints");
  verb.option("-o,--output", arguments->output,
              "write the median step as a trace, which Perfetto and `tributary report` draw");
  verb.flag("--json", arguments->json,
            "print one JSON object: the summary of docs/formats/trace.md");
  verb.example("tributary simulate plan.json --cluster cluster.yaml --steps 20 -o trace.json");
  return [arguments] { return run_simulate(*arguments); };
}

}  // namespace tributary::app
