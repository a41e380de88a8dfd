// BigMac: the encoder's passes nested into the backbone's pipeline, by all ranks of a replica.

#include <algorithm>

#include "studies/methods/colocated/colocated_step.h"

namespace tributary::studies {
namespace {

/// Offers every plan; a rank keeps its part of one microbatch of the encoder.
void offer_nested(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best, Deal how) {
  const std::vector<double> nothing(problem.batches.size());
  for_each_colocated(
      problem, {}, runner,
      [&](ColocatedStep& step, const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
          double samples) {
        if (backbone.tp % tp != 0) return;
        const auto text = [&] {
          return label_of("encoder nested; ", how) + describe_colocated(backbone, rounds, tp);
        };
        // A rank has its part of a microbatch, at least one sample.
        const double mine = std::max(1.0, samples * double(tp) / double(backbone.tp * backbone.pp));
        if (!best.admits(colocated_bytes(problem, backbone, rounds, tp, 1, mine),
                         fullest_of_both(problem, backbone.pp), text))
          return;
        best.race(
            text(),
            [&](std::size_t batch, double limit) { return step.run_nested(batch, tp, how, limit); },
            nothing);
      });
}

}  // namespace

PipelineAnswer solve_bigmac(const TrainingProblem& problem) {
  return best_of(problem, [&](BatchRunner& runner, BestPlan& best) {
    offer_nested(problem, runner, best, Deal::kInOrder);
  });
}

void offer_balanced_nested(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best) {
  offer_nested(problem, runner, best, Deal::kBalanced);
}

}  // namespace tributary::studies
