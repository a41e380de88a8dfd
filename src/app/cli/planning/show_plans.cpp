#include "app/cli/planning/show_plans.h"

#include <iomanip>
#include <iostream>

#include "app/answer/plan_answer.h"
#include "app/cli/planning/show_quantities.h"
#include "core/text.h"

namespace tributary::app {

std::string in_a_line(const plan::PlanningProblem& problem, const plan::FoundPlan& found,
                      const std::string& told, const std::string& gap) {
  std::string line = str(in_milliseconds(found.step), " +- ", in_milliseconds(found.deviation), gap,
                         ", ", found.choice.devices(), " devices, ", in_gibibytes(found.peak), " (",
                         found.fullest, "): ", told);
  if (found.links_shared && found.simulated_batches < std::ssize(problem.batches))
    line +=
        str(" (", found.simulated_batches, " of ", problem.batches.size(), " batches simulated)");
  return line;
}

void print_explanation(const plan::PlanExplanation& explanation, std::int64_t batches) {
  std::cout << "what limits the best plan, step " << in_milliseconds(explanation.step);
  if (batches > kExplainedBatches)
    std::cout << " on the first " << kExplainedBatches << " of " << batches << " batches";
  std::cout << ":\n"
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

}  // namespace tributary::app
