// LoongForge's three levels of sharing, with the encoder on the ranks of the backbone.

#include <algorithm>

#include "core/text.h"
#include "studies/methods/colocated/colocated_step.h"

namespace tributary::studies {
namespace {

/// The trainer's form of a plan, whose encoder takes `at_once` microbatches in a pass. An encoder
/// of another tp than the backbone shares the items of a pass between its copies, where
/// LoongForge's first level has all of them do the same, and the second one a microbatch each.
TrainerForm form_of_level(const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
                          std::int64_t at_once) {
  if (tp == backbone.tp) return inline_form(backbone, rounds);
  return first_stage_form(backbone, rounds, tp, (rounds + at_once - 1) / at_once);
}

/// Offers plans with the encoder on the first stage, each of its groups with its own microbatch.
void offer_first_stage(const TrainingProblem& problem, const GivenDegrees& given,
                       BatchRunner& runner, BestPlan& best, Deal how) {
  for_each_colocated(
      problem, given, runner,
      [&](ColocatedStep& step, const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
          double samples) {
        if (backbone.tp % tp != 0) return;
        // Among the microbatches in flight a group keeps only its own.
        const std::int64_t groups = backbone.tp / tp;
        const std::int64_t depth = (backbone.pp + groups - 1) / groups;
        const auto text = [&] {
          return label_of("encoder on the first stage; ", how) +
                 describe_colocated(backbone, rounds, tp);
        };
        if (!best.admits(colocated_bytes(problem, backbone, rounds, tp, double(depth), samples),
                         fullest_of_both(problem, backbone.pp), text))
          return;
        best.offer({text(), form_of_level(backbone, rounds, tp, groups)}, [&](std::size_t batch) {
          return step.run_on_first_stage(
              batch, how, tp,
              [&](const Buckets& buckets, std::int64_t replica, std::int64_t round) {
                return step.encode_in_groups(buckets, replica, round, tp);
              });
        });
      });
}

/// Solves for one family of LoongForge's plans, whose degrees may be given.
template <class Offer>
PipelineAnswer best_of_given(const TrainingProblem& problem, Offer offer) {
  PipelineAnswer answer = best_of(problem, offer);
  const GivenDegrees& given = problem.given;
  if (answer.certificate.status != plan::Status::kInfeasible || (given.tp == 0 && given.pp == 0))
    return answer;
  std::string degrees;
  if (given.tp != 0) degrees += str(" `tp` ", given.tp);
  if (given.pp != 0) degrees += str(" `pp` ", given.pp);
  answer.certificate.limit =
      str("with", degrees, " as the study gives them: ", answer.certificate.limit);
  return answer;
}

}  // namespace

PipelineAnswer solve_loongforge_1(const TrainingProblem& problem) {
  return best_of_given(problem, [&](BatchRunner& runner, BestPlan& best) {
    for_each_colocated(
        problem, problem.given, runner,
        [&](ColocatedStep& step, const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
            double samples) {
          if (backbone.tp % tp != 0) return;
          const auto text = [&] { return describe_colocated(backbone, rounds, tp); };
          if (!best.admits(
                  colocated_bytes(problem, backbone, rounds, tp, double(backbone.pp), samples),
                  fullest_of_both(problem, backbone.pp), text))
            return;
          best.offer({text(), form_of_level(backbone, rounds, tp, 1)}, [&](std::size_t batch) {
            return step.run_on_first_stage(
                batch, Deal::kInOrder, tp,
                [&](const Buckets& buckets, std::int64_t replica, std::int64_t round) {
                  const double seconds =
                      runner.encoder_seconds(tp, buckets.work[buckets.at(replica, round)].tiles);
                  runner.add_busy(seconds * static_cast<double>(tp));
                  return runner.split_encoder(seconds);
                });
          });
        });
  });
}

PipelineAnswer solve_loongforge_2(const TrainingProblem& problem) {
  return best_of_given(problem, [&](BatchRunner& runner, BestPlan& best) {
    offer_first_stage(problem, problem.given, runner, best, Deal::kInOrder);
  });
}

PipelineAnswer solve_loongforge_3(const TrainingProblem& problem) {
  return best_of_given(problem, [&](BatchRunner& runner, BestPlan& best) {
    if (!has_degree(problem.costs.encoder, 1)) return;
    for_each_backbone(problem, [&](const Degrees& backbone, std::int64_t rounds) {
      if (!problem.given.allow(backbone)) return;
      const auto text = [&] { return describe_colocated(backbone, rounds, 1); };
      if (!best.admits(colocated_bytes(problem, backbone, rounds, 1, 1, 1),
                       fullest_of_both(problem, backbone.pp), text))
        return;
      ColocatedStep step(runner, backbone, rounds);
      best.offer({text(), colocated_form(backbone, rounds, 1)},
                 [&](std::size_t batch) { return step.run_in_phases(batch); });
    });
  });
}

void offer_balanced_first_stage(const TrainingProblem& problem, BatchRunner& runner,
                                BestPlan& best) {
  offer_first_stage(problem, {}, runner, best, Deal::kBalanced);
}

}  // namespace tributary::studies
