// MegaScale-Omni: both modules on all ranks, each with its own data parallelism; samples are
// dispatched again between them within groups of ranks.

#include "core/text.h"
#include "studies/methods/colocated/colocated_step.h"

namespace tributary::studies {
namespace {

/// Offers every plan whose groups `admits` accepts.
template <class Admits>
void offer_groups(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best,
                  const char* where, Admits admits) {
  const std::vector<double> nothing(problem.batches.size());
  for_each_colocated(
      problem, {}, runner,
      [&](ColocatedStep& step, const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
          double) {
        const auto text = [&](std::int64_t groups) {
          return str(where, describe_colocated(backbone, rounds, tp), ", ", groups,
                     groups == 1 ? " group" : " groups");
        };
        if (backbone.devices() % tp != 0 ||
            !best.admits(colocated_bytes(problem, backbone, rounds, tp, 1, 1),
                         fullest_of_both(problem, backbone.pp), [&] { return text(1); }))
          return;
        for (std::int64_t groups = 1; groups <= backbone.dp; ++groups) {
          if (!admits(groups) || backbone.dp % groups != 0 || backbone.devices() / groups % tp != 0)
            continue;
          std::optional<TrainerForm> form;  // the trainer dispatches samples to any of all ranks
          if (groups == 1) form = colocated_form(backbone, rounds, tp);
          best.race(
              {text(groups), form},
              [&](std::size_t batch, double limit) {
                return step.run_in_balanced_phases(batch, tp, groups, limit);
              },
              nothing);
        }
      });
}

}  // namespace

PipelineAnswer solve_megascale_omni(const TrainingProblem& problem) {
  return best_of(problem, [&](BatchRunner& runner, BestPlan& best) {
    offer_groups(problem, runner, best, "", [](std::int64_t) { return true; });
  });
}

void offer_balanced_phases(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best) {
  offer_groups(problem, runner, best, "encoder on all ranks; ",
               [](std::int64_t groups) { return groups == 1; });
}

}  // namespace tributary::studies
