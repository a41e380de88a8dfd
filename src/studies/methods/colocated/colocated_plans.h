#pragma once

#include <string>

#include "studies/methods/colocated/colocated_step.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {

/// Bytes of a rank that encodes so many samples at a time, beside what it keeps of the backbone.
[[nodiscard]] double colocated_bytes(const TrainingProblem& problem, const Degrees& backbone,
                                     std::int64_t rounds, std::int64_t tp, double depth,
                                     double samples);

[[nodiscard]] std::string describe_colocated(const Degrees& backbone, std::int64_t rounds,
                                             std::int64_t tp);
/// Where the plan lies, for `best_of_methods`, which has others beside it.
[[nodiscard]] std::string label_of(const char* where, Deal how);

/// Every plan of the backbone with every degree of the encoder, and the mean samples of a round.
template <class Visit>
void for_each_colocated(const TrainingProblem& problem, const GivenDegrees& given,
                        BatchRunner& runner, Visit visit) {
  for_each_backbone(problem, [&](const Degrees& backbone, std::int64_t rounds) {
    if (!given.allow(backbone)) return;
    const double samples = double(problem.costs.global_samples) / double(rounds * backbone.dp);
    ColocatedStep step(runner, backbone, rounds);
    for (const DegreeCosts& degree : problem.costs.encoder.degrees)
      visit(step, backbone, rounds, degree.tp, samples);
  });
}

/// What a family of plans has to offer, by itself.
template <class Offer>
PipelineAnswer best_of(const TrainingProblem& problem, Offer offer) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  offer(runner, best);
  return best.answer(form_of_backbone(problem) + ", tp or tp x pp a multiple of that of " +
                     problem.costs.encoder.name);
}

}  // namespace tributary::studies
