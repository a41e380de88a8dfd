// The encoder on the ranks of the backbone: LoongForge's three levels, Optimus.

#include <algorithm>

#include "core/text.h"
#include "plan/baseline/plan_space.h"

namespace tributary::plan {
namespace {

/// The backbone's own stages, and something before or beside them.
class ColocatedStep {
 public:
  ColocatedStep(BatchRunner& runner, const Degrees& backbone, std::int64_t rounds)
      : runner_(runner), backbone_(backbone), rounds_(rounds) {}

  /// `encoder`: how its copies lie, which deals by both loads ask for.
  [[nodiscard]] const Buckets& deal(std::size_t batch, Deal how,
                                    const Degrees& encoder = {}) const {
    return runner_.deal(batch, backbone_.dp, rounds_, how, encoder, backbone_);
  }

  [[nodiscard]] BatchRunner::StageTimes stage(const Buckets& buckets, int stage,
                                              std::int64_t replica, std::int64_t round) const {
    const ModuleCosts& module = runner_.problem().costs.backbone;
    const double share =
        double(layers_of_stage(module.layers, backbone_.pp, stage)) / double(module.layers);
    return runner_.split_backbone(
        share *
        runner_.backbone_seconds(backbone_.tp, buckets.work[buckets.at(replica, round)].tokens));
  }

  /// The encoder by groups of `tp` ranks of the first stage, beside the backbone's layers;
  /// `encoder` says what a round takes.
  template <class Encoder>
  [[nodiscard]] double run_on_first_stage(std::size_t batch, Deal how, std::int64_t tp,
                                          Encoder encoder) {
    const Buckets& buckets = deal(batch, how, {tp, 1, backbone_.dp * backbone_.tp / tp});
    const auto cost = [&](int stage, std::int64_t replica, std::int64_t round) {
      const BatchRunner::StageTimes times = this->stage(buckets, stage, replica, round);
      runner_.add_busy((times.forward + times.backward) * static_cast<double>(backbone_.tp));
      if (stage > 0) return times;
      return times + encoder(buckets, replica, round);
    };
    // Encoders count their own work: some ranks may have less of it than the stage takes.
    return runner_.run_pipelines(
               static_cast<int>(backbone_.pp), buckets, [](int) { return std::int64_t{0}; }, cost) +
           sync();
  }

  /// What a round takes where every group of tp ranks encodes a microbatch of its own, as many at
  /// once as there are groups: forward with the first of them, backward each with its own.
  [[nodiscard]] BatchRunner::StageTimes encode_in_groups(const Buckets& buckets,
                                                         std::int64_t replica, std::int64_t round,
                                                         std::int64_t tp) {
    const std::int64_t groups = backbone_.tp / tp;
    const auto times_of = [&](std::int64_t member) {
      return runner_.split_encoder(
          runner_.encoder_seconds(tp, buckets.work[buckets.at(replica, member)].tiles));
    };
    const BatchRunner::StageTimes own = times_of(round);
    runner_.add_busy((own.forward + own.backward) * static_cast<double>(tp));
    BatchRunner::StageTimes times = {0, own.backward};
    if (round % groups != 0) return times;
    const std::int64_t end = std::min(round + groups, buckets.rounds);
    for (std::int64_t member = round; member < end; ++member)
      times.forward = std::max(times.forward, times_of(member).forward);
    return times;
  }

  /// All samples of a replica over the ranks that hold one copy of the backbone.
  [[nodiscard]] double phase(std::size_t batch, const Buckets& buckets, std::int64_t replica,
                             std::int64_t tp) const {
    std::vector<std::int32_t> samples;
    for (std::int64_t round = 0; round < buckets.rounds; ++round) {
      const std::vector<std::int32_t>& mine = buckets.samples[buckets.at(replica, round)];
      samples.insert(samples.end(), mine.begin(), mine.end());
    }
    return runner_.encoder_phase(batch, samples, tp, backbone_.tp * backbone_.pp / tp,
                                 Deal::kBalanced);
  }

  /// The same with all samples encoded over all ranks, and the backbone's samples balanced.
  [[nodiscard]] double run_in_balanced_phases(std::size_t batch) {
    const Buckets& buckets = deal(batch, Deal::kByTokens);
    const std::vector<SampleWork>& samples = runner_.problem().batches[batch];
    double tiles = 0;
    for (const SampleWork& sample : samples) tiles += sample.tiles;
    double slowest = 0;
    for (std::int64_t replica = 0; replica < backbone_.dp; ++replica)
      slowest = std::max(slowest, pipeline(times_of(buckets, replica)));
    return runner_.encoder_phase(samples, 1, backbone_.devices(), Deal::kBalanced) +
           2 * runner_.feature_seconds(tiles, backbone_.devices()) + slowest + sync();
  }

  /// Forward of all encoders, the pipeline, backward of all encoders; features exchanged between.
  [[nodiscard]] double run_in_phases(std::size_t batch) {
    const Buckets& buckets = deal(batch, Deal::kInOrder);
    double slowest = 0;
    for (std::int64_t replica = 0; replica < backbone_.dp; ++replica) {
      double tiles = 0;
      for (std::int64_t round = 0; round < buckets.rounds; ++round) {
        tiles += buckets.work[buckets.at(replica, round)].tiles;
      }
      slowest =
          std::max(slowest, phase(batch, buckets, replica, 1) +
                                2 * runner_.feature_seconds(tiles, backbone_.tp * backbone_.pp) +
                                pipeline(times_of(buckets, replica)));
    }
    return slowest + sync();
  }

  /// Encoder kernels in the idle time of the pipeline; what does not fit, and the features of the
  /// first round, come on top.
  [[nodiscard]] double run_in_bubbles(std::size_t batch, std::int64_t tp, Deal how) {
    const Buckets& buckets = deal(batch, how, {tp, 1, backbone_.devices() / tp});
    double slowest = 0;
    for (std::int64_t replica = 0; replica < backbone_.dp; ++replica) {
      const double work = phase(batch, buckets, replica, tp);
      const std::vector<BatchRunner::StageTimes> times = times_of(buckets, replica);
      double over = 0;
      for (const double idle : idle_in_1f1b(static_cast<int>(backbone_.pp), times))
        over = std::max(over, work - idle);
      // Its work is counted with the phase.
      const double busy = runner_.take_busy();
      const double first = runner_.encoder_phase(batch, buckets.samples[buckets.at(replica, 0)], tp,
                                                 backbone_.tp * backbone_.pp / tp, Deal::kBalanced);
      (void)runner_.take_busy();
      runner_.add_busy(busy);
      slowest =
          std::max(slowest, pipeline(times) + std::max(over, runner_.split_encoder(first).forward));
    }
    return slowest + sync();
  }

 private:
  /// Of all stages and rounds of a replica: [pp, rounds].
  [[nodiscard]] std::vector<BatchRunner::StageTimes> times_of(const Buckets& buckets,
                                                              std::int64_t replica) const {
    std::vector<BatchRunner::StageTimes> times;
    for (int stage = 0; stage < backbone_.pp; ++stage) {
      for (std::int64_t round = 0; round < buckets.rounds; ++round)
        times.push_back(this->stage(buckets, stage, replica, round));
    }
    return times;
  }
  [[nodiscard]] double pipeline(std::span<const BatchRunner::StageTimes> times) {
    for (const auto& [forward, backward] : times)
      runner_.add_busy((forward + backward) * static_cast<double>(backbone_.tp));
    return time_1f1b(static_cast<int>(backbone_.pp), times);
  }
  [[nodiscard]] double sync() const {
    const Problem3d& costs = runner_.problem().costs;
    // Every rank that holds a copy of the encoder takes part in its reduction.
    const Degrees copies = {1, 1, backbone_.devices()};
    return std::max(
        runner_.sync_seconds(costs.backbone, backbone_, rounds_),
        has_degree(costs.encoder, 1) ? runner_.sync_seconds(costs.encoder, copies, 1) : 0);
  }

  BatchRunner& runner_;
  Degrees backbone_;
  std::int64_t rounds_;
};

/// Samples that a rank encodes at a time, and what it keeps of them.
double colocated_bytes(const TrainingProblem& problem, const Degrees& backbone, std::int64_t rounds,
                       std::int64_t tp, std::int64_t depth, double samples) {
  // Every rank holds a part of a copy.
  const Degrees encoder = {tp, 1, std::max<std::int64_t>(backbone.devices() / tp, 1)};
  return backbone_bytes(problem, backbone, rounds) +
         encoder_bytes(problem, encoder, depth, samples);
}

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

std::string describe(const Degrees& backbone, std::int64_t rounds, std::int64_t tp) {
  return str(to_text(backbone), ", ", rounds, " microbatches, encoder tp ", tp);
}

/// Where the plan lies, for `combined`, which has others beside it.
std::string label_of(const char* where, Deal how) { return how == Deal::kBalanced ? where : ""; }

/// The encoder on the first stage, each of its groups with a microbatch of its own.
void offer_first_stage(const TrainingProblem& problem, const GivenDegrees& given,
                       BatchRunner& runner, BestPlan& best, Deal how) {
  for_each_colocated(
      problem, given, runner,
      [&](ColocatedStep& step, const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
          double samples) {
        if (backbone.tp % tp != 0) return;
        // Of the microbatches in flight a group keeps its own.
        const std::int64_t groups = backbone.tp / tp;
        const std::int64_t depth = (backbone.pp + groups - 1) / groups;
        const auto text = [&] {
          return label_of("encoder on the first stage; ", how) + describe(backbone, rounds, tp);
        };
        if (!best.admits(colocated_bytes(problem, backbone, rounds, tp, depth, samples),
                         fullest_of_both(problem, backbone.pp), text))
          return;
        best.offer(text(), [&](std::size_t batch) {
          return step.run_on_first_stage(
              batch, how, tp,
              [&](const Buckets& buckets, std::int64_t replica, std::int64_t round) {
                return step.encode_in_groups(buckets, replica, round, tp);
              });
        });
      });
}

/// The encoder in the idle time of all stages.
void offer_bubbles(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best, Deal how) {
  for_each_colocated(
      problem, {}, runner,
      [&](ColocatedStep& step, const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
          double) {
        if (backbone.tp * backbone.pp % tp != 0) return;
        const auto text = [&] {
          return label_of("encoder in idle time; ", how) + describe(backbone, rounds, tp);
        };
        if (!best.admits(colocated_bytes(problem, backbone, rounds, tp, 1, 1),
                         fullest_of_both(problem, backbone.pp), text))
          return;
        best.offer(text(), [&](std::size_t batch) { return step.run_in_bubbles(batch, tp, how); });
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

/// The same of LoongForge's methods, whose degrees may be given.
template <class Offer>
PipelineAnswer best_of_given(const TrainingProblem& problem, Offer offer) {
  PipelineAnswer answer = best_of(problem, offer);
  const GivenDegrees& given = problem.given;
  if (answer.certificate.status != Status::kInfeasible || (given.tp == 0 && given.pp == 0))
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
          const auto text = [&] { return describe(backbone, rounds, tp); };
          if (!best.admits(colocated_bytes(problem, backbone, rounds, tp, backbone.pp, samples),
                           fullest_of_both(problem, backbone.pp), text))
            return;
          best.offer(text(), [&](std::size_t batch) {
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
      const auto text = [&] { return describe(backbone, rounds, 1); };
      if (!best.admits(colocated_bytes(problem, backbone, rounds, 1, 1, 1),
                       fullest_of_both(problem, backbone.pp), text))
        return;
      ColocatedStep step(runner, backbone, rounds);
      best.offer(text(), [&](std::size_t batch) { return step.run_in_phases(batch); });
    });
  });
}

PipelineAnswer solve_optimus(const TrainingProblem& problem) {
  return best_of(problem, [&](BatchRunner& runner, BestPlan& best) {
    offer_bubbles(problem, runner, best, Deal::kInOrder);
  });
}

void offer_balanced_phases(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best) {
  if (!has_degree(problem.costs.encoder, 1)) return;
  for_each_backbone(problem, [&](const Degrees& backbone, std::int64_t rounds) {
    const auto text = [&] { return str("encoder on all ranks; ", describe(backbone, rounds, 1)); };
    if (!best.admits(colocated_bytes(problem, backbone, rounds, 1, 1, 1),
                     fullest_of_both(problem, backbone.pp), text))
      return;
    ColocatedStep step(runner, backbone, rounds);
    best.offer(text(), [&](std::size_t batch) { return step.run_in_balanced_phases(batch); });
  });
}

void offer_balanced_bubbles(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best) {
  offer_bubbles(problem, runner, best, Deal::kBalanced);
}

void offer_balanced_first_stage(const TrainingProblem& problem, BatchRunner& runner,
                                BestPlan& best) {
  offer_first_stage(problem, {}, runner, best, Deal::kBalanced);
}

}  // namespace tributary::plan
