#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>

#include "app/answer/certificate_json.h"
#include "app/answer/measured_machine.h"
#include "app/answer/simulate_answer.h"
#include "app/cli/commands.h"
#include "app/cli/output_file.h"
#include "app/cli/planning/show_quantities.h"
#include "core/error.h"
#include "core/log.h"
#include "cost/watched_costs.h"

namespace tributary::app {
namespace {

struct Arguments {
  std::string plan;
  std::string workload;
  std::string cluster;
  std::string model;
  std::string output;
  std::string lengths;
  std::string profile;
  std::string run;
  std::int64_t skip = 0;
  bool no_sequence_parallel = false;
  bool json = false;
  SimulateRequest request;
  GivenOptions given;
};

/// ` (attention in full 4.6 %, with recompute 5.5 %)`; what is frozen where something is.
std::string in_other_words(const config::NamedShares& shares) {
  std::string text;
  for (const auto& [name, words] :
       {std::pair{"mfu_full", "attention in full"}, std::pair{"hfu", "with recompute"},
        std::pair{"mfu_causal_without_frozen", "without frozen modules"}}) {
    const auto found = shares.find(name);
    if (found != shares.end())
      text += str(text.empty() ? " (" : ", ", words, ' ', in_percent(found->second, 1));
  }
  return text.empty() ? text : text + ')';
}

void print_as_text(const config::Trace& trace, bool in_batches) {
  const config::TraceSummary& summary = trace.summary;
  std::cout << "step " << in_time(summary.step);
  if (summary.steps > 1) std::cout << ", the mean of " << summary.steps << ',';
  std::cout << " on " << summary.ranks << " ranks of " << summary.cluster << '\n';
  if (summary.planned_step.count > 0)
    std::cout << "the plan predicts " << in_time(summary.planned_step) << '\n';
  if (!summary.samples.empty()) std::cout << "samples: " << summary.samples << '\n';
  if (summary.steps > 1) {
    std::cout << summary.steps << " steps:";
    for (const auto& [name, time] : summary.distribution)
      std::cout << ' ' << name << ' ' << in_time(time);
    std::cout << "\nof the median step: ";
  }
  const double gap = gap_above(summary.shown_step(), summary.lower_bound);
  std::cout << "no order of the passes is below " << in_time(summary.lower_bound) << " (gap "
            << in_percent(gap, 1) << ")\nmfu "
            << (summary.knows("mfu") ? in_percent(summary.mfu, 1) : "unknown")
            << in_other_words(summary.utilisation) << ", idle " << in_percent(summary.idle_share, 1)
            << "; critical path:";
  for (const auto& [kind, time] : summary.critical_path)
    std::cout << ' ' << kind << ' ' << in_time(time);
  std::cout << '\n';
  if (summary.failures > 0)
    std::cout << summary.failures << " failures, goodput " << in_percent(summary.goodput, 1)
              << (summary.goodput == 0 ? ": no progress, each try fails before the next checkpoint"
                                       : "")
              << '\n';
  if (!summary.out_of_memory.empty())
    std::cout << "does not fit: " << summary.out_of_memory << '\n';
  if (!summary.beyond_grid.empty())
    std::cout << "beyond what was measured, at the rate of the largest size: "
              << cost::describe(summary.beyond_grid) << '\n';
  if (summary.unsettled)
    std::cout << "the encoders that run ahead had not settled when the first step began: look at "
                 "more --steps, or a smaller "
              << (in_batches ? "--ahead" : "--pool") << '\n';
  constexpr std::size_t kMostLanes = 32;
  for (std::size_t lane = 0; lane < std::min(kMostLanes, trace.lanes.size()); ++lane) {
    const config::TraceLane& of = trace.lanes[lane];
    std::cout << of.name << ", " << of.ranks << (of.ranks == 1 ? " rank" : " ranks") << ": peak "
              << (summary.knows("memory") ? in_gibibytes(of.peak) : "unknown");
    for (const auto& [use, time] : of.uses) std::cout << ", " << use << ' ' << in_time(time);
    std::cout << '\n';
  }
  if (trace.lanes.size() > kMostLanes)
    std::cout << "and " << trace.lanes.size() - kMostLanes << " lanes more: --output\n";
}

void show(const Arguments& arguments, const config::Trace& trace) {
  if (!arguments.output.empty()) write_output(arguments.output, config::write_trace(trace));
  if (arguments.json) {
    std::cout << config::write_summary(trace);
  } else {
    print_as_text(trace, arguments.request.ahead >= 0);
  }
}

ExitCode run_workload(const Arguments& arguments) {
  const simulate::SimaiWorkload workload = simulate::read_simai_workload(arguments.workload);
  SimulateRequest request = arguments.request;
  request.given = arguments.given;
  if (!arguments.cluster.empty()) request.cluster = config::read_cluster(arguments.cluster);
  const config::Trace trace = answer_workload(workload, request);
  if (!arguments.json) std::cout << simulate::describe(workload) << '\n';
  show(arguments, trace);
  return ExitCode::kDone;
}

/// Says what will take long before it begins, so that nobody takes it for a hang.
void note_size(const SimulateRequest& request) {
  constexpr double kMany = 20'000;
  const auto samples = static_cast<double>(request.plan.batch.global_samples);
  if (samples < kMany) return;
  log_note(str("simulate: ", counted(request.steps, "step"), " of ", in_thousands(samples),
               " samples each, to be dealt and run: this may take minutes; fewer --steps or "
               "batch.global_samples of the plan take less"));
}

ExitCode run_simulate(const Arguments& arguments) {
  refuse_idle_options(arguments.given);
  check_output(arguments.output,
               {arguments.plan, arguments.workload, arguments.cluster,
                arguments.model + "/config.json", arguments.profile, arguments.lengths});
  if (!arguments.workload.empty()) return run_workload(arguments);
  TRIB_REQUIRE(!arguments.plan.empty(), .what = "app: nothing to simulate",
               .where = "tributary simulate", .expected = "PLAN.json, or --workload FILE",
               .fix = "see tributary simulate --help");
  SimulateRequest request = arguments.request;
  request.plan = config::read_plan(arguments.plan);
  request.plan_name = arguments.plan;
  request.given = arguments.given;
  if (!arguments.cluster.empty()) request.cluster = config::read_cluster(arguments.cluster);
  const std::string model =
      find_model(arguments.model, request.plan, arguments.plan, request.caller);
  request.model = read_graph(model);
  if (!arguments.profile.empty()) {
    request.profile = config::read_profile(arguments.profile);
    check_profile_model(*request.profile, arguments.profile, model);
  }
  request.profile_name = arguments.profile;
  if (!arguments.run.empty()) take_run(request, arguments.run, arguments.skip);
  if (!arguments.lengths.empty()) request.recorded = read_sizes(arguments.lengths);
  request.sequence_parallel = !arguments.no_sequence_parallel;
  note_size(request);
  show(arguments, answer_simulate(request));
  return ExitCode::kDone;
}

}  // namespace

Run declare_simulate(Verb& verb) {
  const auto arguments = std::make_shared<Arguments>();
  simulate::Disturbance& disturbance = arguments->request.disturbance;
  verb.optional_positional("PLAN.json", arguments->plan,
                           "where and how every module runs; needed without --workload");
  verb.option("--workload", arguments->workload,
              "in place of a plan, a workload of SimAI (docs/formats/simai_workload.md)");
  verb.option("--cluster", arguments->cluster,
              "devices and links; default: nodes of 8 A100-80, configs/clusters/a100_8.yaml");
  verb.option("--profile", arguments->profile,
              "measured layers and collectives, a file of `tributary profile`; with --cluster that "
              "says devices, memory and links between stages");
  verb.option("--run", arguments->run,
              "directory of a run: simulate its steps, with the microbatches that they had");
  verb.option("--skip", arguments->skip, "steps at the beginning of --run to leave out");
  verb.option(
      "--threads", arguments->request.threads,
      "compute threads of each rank, where --profile is of a CPU or the cluster says its cores; "
      "default: those of --run, or an equal part of the cores");
  verb.option("--model", arguments->model,
              "directory with a config.json, or a module graph; default: the plan's `model`");
  verb.option("--steps", arguments->request.steps, "steps to simulate");
  verb.option("--seed", arguments->request.seed, "of samples and disturbances");
  verb.option("--lengths", arguments->lengths,
              "recorded sizes: a shape histogram (.json), or a sample a line: tokens, patches, "
              "images or frames, audio positions, clips");
  verb.flag(
      "--mixture", arguments->request.mixture,
      "draw photos, documents, groups of pictures and videos, with sound where the model encodes "
      "it beside images; the default: the samples that the "
      "plan was judged with, else these where it has an encoder, else full microbatches");
  verb.flag("--unfused-attention", arguments->request.unfused_attention,
            "attention by products with the scores in memory, not by one kernel");
  verb.flag("--no-sequence-parallel", arguments->no_sequence_parallel,
            "with tp of the backbone, every rank keeps what lies between the products whole");
  verb.option("--reduce-dtype", arguments->request.reduce_dtype,
              "of gradients, as parallel.reduce_dtype: float32, or same as the parameters");
  verb.option(
      "--pool", arguments->request.pool,
      "microbatches that the pool keeps of an encoder of placement flow which gives single ones, "
      "not whole batches (--ahead)");
  verb.option(
      "--ahead", arguments->request.ahead,
      "whole batches that frozen encoders of placement flow may be ahead: 0 encodes each "
      "before its step, 1 beside the step before; -1: microbatches, as far as the pool lets "
      "them");
  verb.option("--scheduler-ms", arguments->request.scheduler_ms,
              "time that the step plan takes beside a step [ms]");
  verb.option("--stragglers", disturbance.straggler_share,
              "share of slow ranks in each step, with --straggler-factor");
  verb.option("--straggler-factor", disturbance.straggler_factor,
              "how much longer their passes take");
  verb.option("--anomalies", disturbance.anomaly_share,
              "share of single passes that are slow, with --anomaly-factor");
  verb.option("--anomaly-factor", disturbance.anomaly_factor, "how much longer they take");
  verb.option("--failure-hours", disturbance.hours_between_failures,
              "mean time between failures of one rank [h]; 0: none fails");
  verb.option("--restart-seconds", disturbance.restart_s, "from a failure to the next step [s]");
  verb.option("--checkpoint-steps", disturbance.checkpoint_steps, "steps between checkpoints");
  verb.option("-o,--output", arguments->output,
              "write the median step as a trace, which Perfetto and `tributary report` draw");
  verb.flag("--json", arguments->json,
            "print one JSON object: the summary of docs/formats/trace.md, but for its lanes");
  verb.example("tributary simulate plan.json --cluster cluster.yaml --steps 20 -o trace.json");
  arguments->given = verb.given();
  return [arguments] { return run_simulate(*arguments); };
}

}  // namespace tributary::app
