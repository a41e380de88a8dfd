#include "app/cli/planning/show_plans.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "app/cli/output_file.h"
#include "app/cli/planning/show_quantities.h"
#include "app/launch/command_words.h"
#include "core/text.h"

namespace tributary::app {
namespace {

constexpr std::size_t kIndent = 5;

void print_wrapped(const std::string& text) {
  std::cout << std::string(kIndent, ' ') << wrapped(text, kIndent) << '\n';
}

/// The path of the model relative to the folder of the plan.
std::string seen_from(const std::string& output, const std::string& model) {
  const std::filesystem::path folder =
      std::filesystem::absolute(output).lexically_normal().parent_path();
  return std::filesystem::absolute(model).lexically_normal().lexically_relative(folder).string();
}

}  // namespace

std::string describe_work(const plan::PlanningProblem& problem) {
  const auto batches = std::ssize(problem.batches);
  return str(counted(problem.global_samples(), "sample"), " a step (",
             in_thousands(mean_tokens(problem)), " tokens",
             batches > 1 ? str(", mean of ", batches, " batches") : "", ") on ",
             counted(problem.devices, "device"), " (", problem.cluster.name, ")");
}

void print_heading() {
  std::cout
      << "       step                   gap  tokens/s     MFU  memory of the fullest device\n";
}

void print_row(const plan::PlanningProblem& problem, const ListedPlan& listed,
               const std::string& told, std::int64_t place, bool has_gap) {
  const plan::FoundPlan& found = listed.found;
  const std::string step = str(in_time(found.step), " +- ", in_time(found.deviation));
  std::cout << std::setw(3) << (place > 0 ? str(place, '.') : "") << "  " << std::left
            << std::setw(20) << step << std::right << std::setw(8)
            << (has_gap ? in_percent(listed.gap, 1) : "") << std::setw(10)
            << in_thousands(listed.tokens_per_s) << std::setw(8)
            << (listed.mfu > 0 ? in_percent(listed.mfu, 1) : "unknown") << "  "
            << in_gibibytes(found.peak) << " of " << in_gibibytes(problem.memory()) << " ("
            << found.fullest << ")\n";
  std::string text = told;
  if (found.choice.devices() != problem.devices)
    text = counted(found.choice.devices(), "device") + ": " + text;
  if (!found.links_shared) text += " (not simulated: messages as if each were alone)";
  if (found.links_shared && found.simulated_batches < std::ssize(problem.batches))
    text +=
        str(" (", found.simulated_batches, " of ", problem.batches.size(), " batches simulated)");
  print_wrapped(text);
}

void check_plan_output(const PlanOptions& options) {
  const std::string& config = options.model.text;
  check_output(options.output, {config, config + "/config.json", options.cluster.text,
                                options.profile.text, options.lengths.text});
}

void write_plan_of(const PlanRequest& request, config::Plan plan) {
  const std::string& output = request.options.output;
  if (output.empty()) return;
  plan.model = seen_from(output, request.options.model.text);
  config::check_plan(plan, output);
  write_output(output, config::write_plan(plan));
}

void print_written(const ListedPlan& listed, const PlanOptions& options) {
  if (options.output.empty()) return;
  const std::string& config = options.model.text;
  const bool is_run = config.ends_with(".yaml") || config.ends_with(".yml");
  const std::string program = own_program_words();
  const std::string output = shell_word(options.output);
  std::cout << "wrote " << options.output;
  if (listed.trains()) {
    std::cout << ", to train with: " << program << " launch -n " << listed.found.choice.devices()
              << " -- train " << (is_run ? shell_word(config) : "RUN.yaml") << " --plan " << output
              << '\n';
    return;
  }
  std::cout << ", for simulation alone: " << program << " simulate " << output;
  if (!options.cluster.empty()) std::cout << " --cluster " << shell_word(options.cluster.text);
  std::cout << '\n';
}

void print_explanation(const plan::PlanExplanation& explanation, std::int64_t batches) {
  std::cout << "what limits plan 1, step " << in_time(explanation.step);
  if (batches > kExplainedBatches)
    std::cout << " on the first " << kExplainedBatches << " of " << batches << " batches";
  std::cout << ":\n  critical path:";
  for (const auto& [kind, time] : explanation.critical_path)
    std::cout << ' ' << kind << ' ' << in_time(time);
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
              << in_time(remedy.step) << ": " << remedy.change << '\n';
}

}  // namespace tributary::app
