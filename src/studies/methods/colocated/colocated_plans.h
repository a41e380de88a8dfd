#pragma once

#include <string>

#include "studies/methods/colocated/colocated_step.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {

/// Bytes of a rank that encodes `samples` samples at a time, besides the backbone's.
[[nodiscard]] double colocated_bytes(const TrainingProblem& problem, const Degrees& backbone,
                                     std::int64_t rounds, std::int64_t tp, double depth,
                                     double samples);

[[nodiscard]] std::string describe_colocated(const Degrees& backbone, std::int64_t rounds,
                                             std::int64_t tp);
/// The label of a plan in `best_of_methods`, where there are others beside it.
[[nodiscard]] std::string label_of(const char* where, Deal how);

/// Visits every plan of the backbone with every degree of the encoder, and a round's mean samples.
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

/// Solves for one family of plans without the others.
template <class Offer>
PipelineAnswer best_of(const TrainingProblem& problem, Offer offer) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  offer(runner, best);
  return best.answer(form_of_backbone(problem) + ", tp or tp x pp a multiple of that of " +
                     problem.costs.encoder.name);
}

}  // namespace tributary::studies
