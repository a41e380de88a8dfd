// Optimus: the encoder in the idle time of the backbone's stages.

#include "studies/methods/colocated/colocated_step.h"

namespace tributary::studies {
namespace {

/// Offers plans with the encoder in the idle time of all stages.
void offer_bubbles(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best, Deal how) {
  for_each_colocated(
      problem, {}, runner,
      [&](ColocatedStep& step, const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
          double) {
        if (backbone.tp * backbone.pp % tp != 0) return;
        const auto text = [&] {
          return label_of("encoder in idle time; ", how) + describe_colocated(backbone, rounds, tp);
        };
        if (!best.admits(colocated_bytes(problem, backbone, rounds, tp, 1, 1),
                         fullest_of_both(problem, backbone.pp), text))
          return;
        best.offer(text(), [&](std::size_t batch) { return step.run_in_bubbles(batch, tp, how); });
      });
}

}  // namespace

PipelineAnswer solve_optimus(const TrainingProblem& problem) {
  return best_of(problem, [&](BatchRunner& runner, BestPlan& best) {
    offer_bubbles(problem, runner, best, Deal::kInOrder);
  });
}

void offer_balanced_bubbles(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best) {
  offer_bubbles(problem, runner, best, Deal::kBalanced);
}

}  // namespace tributary::studies
