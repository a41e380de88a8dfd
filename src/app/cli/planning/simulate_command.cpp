#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>

#include "app/answers/certificate_json.h"
#include "app/answers/simulate_answer.h"
#include "app/cli/commands.h"
#include "app/cli/output_file.h"
#include "app/cli/planning/show_quantities.h"
#include "core/error.h"
#include "core/log.h"
#include "cost/watched_costs.h"

namespace tributary::app {
namespace {

/// ` (attention in full 4.6 %, with recompute 5.5 %)`, or empty without such shares.
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
  constexpr std::size_t kMaxLanes = 32;
  for (std::size_t lane = 0; lane < std::min(kMaxLanes, trace.lanes.size()); ++lane) {
    const config::TraceLane& of = trace.lanes[lane];
    std::cout << of.name << ", " << of.ranks << (of.ranks == 1 ? " rank" : " ranks") << ": peak "
              << (summary.knows("memory") ? in_gibibytes(of.peak) : "unknown");
    for (const auto& [use, time] : of.uses) std::cout << ", " << use << ' ' << in_time(time);
    std::cout << '\n';
  }
  if (trace.lanes.size() > kMaxLanes)
    std::cout << "and " << trace.lanes.size() - kMaxLanes << " lanes more: --output\n";
}

/// Warns before a simulation that may take minutes, so that nobody takes it for a hang.
void note_size(const SimulateRequest& request) {
  constexpr double kMany = 20'000;
  const auto samples = static_cast<double>(request.plan.batch.global_samples);
  if (request.workload || samples < kMany) return;
  log_note(str("simulate: ", counted(request.options.steps, "step"), " of ", in_thousands(samples),
               " samples each, to be dealt and run: this may take minutes; fewer --steps or "
               "batch.global_samples of the plan take less"));
}

ExitCode run_simulate(const SimulateOptions& options) {
  check_output(options.output,
               {options.plan.text, options.workload, options.cluster.text,
                options.model.text + "/config.json", options.profile.text, options.lengths.text});
  const SimulateRequest request = read_request(options);
  note_size(request);
  const config::Trace trace = answer_simulate(request);
  if (!options.output.empty()) write_output(options.output, config::write_trace(trace));
  if (options.json) {
    std::cout << config::write_summary(trace);
    return ExitCode::kDone;
  }
  if (request.workload) std::cout << simulate::describe(*request.workload) << '\n';
  print_as_text(trace, options.ahead >= 0);
  return ExitCode::kDone;
}

}  // namespace

Run declare_simulate(Verb& verb) {
  const auto options = std::make_shared<SimulateOptions>();
  verb.fields(fields_of(*options));
  verb.example("tributary simulate plan.json --cluster cluster.yaml --steps 20 -o trace.json");
  options->given = verb.given();
  return [options] { return run_simulate(*options); };
}

}  // namespace tributary::app
