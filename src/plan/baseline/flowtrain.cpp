// FlowTrain: devices by throughput matching, samples through a pool of features.

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.h"
#include "plan/baseline/plan_space.h"
#include "plan/flow/allocate_flow.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kPoolRounds = 8;  // microbatches that the pool may hold

Nanoseconds period_of(double seconds_of_sample) {
  return {std::max<std::int64_t>(std::llround(1024e9 * seconds_of_sample), 1)};
}

/// A way to run a module, beside its candidate.
struct Choice {
  Degrees degrees;
  std::int64_t rounds = 1;
};

/// Encoders: data and tensor parallel.
FlowModule list_encoders(const BatchRunner& runner, std::vector<Choice>& choices) {
  const Problem3d& costs = runner.problem().costs;
  FlowModule module = {.name = costs.encoder.name};
  for (const DegreeCosts& degree : costs.encoder.degrees) {
    if (encoder_bytes(runner.problem(), degree.tp, 1, 1, 1) > costs.memory_bytes) continue;
    for (std::int64_t dp = 1; dp * degree.tp < costs.devices; ++dp) {
      if (costs.global_samples % dp != 0) continue;
      const double seconds =
          runner.encoder_seconds(degree.tp, costs.encoder.sample_shape) / double(dp);
      module.candidates.push_back({dp * degree.tp, period_of(seconds)});
      choices.push_back({{degree.tp, 1, dp}, 1});
    }
  }
  return module;
}

/// Backbones: the number of rounds that makes the mean step shortest.
FlowModule list_backbones(const BatchRunner& runner, std::vector<Choice>& choices) {
  const TrainingProblem& problem = runner.problem();
  const Problem3d& costs = problem.costs;
  FlowModule module = {.name = costs.backbone.name};
  for (std::int64_t devices = 1; devices < costs.devices; ++devices) {
    for (const Degrees& degrees : list_degrees(costs.backbone, devices, costs.global_samples)) {
      if (costs.global_samples % degrees.dp != 0) continue;
      Choice best = {degrees, 0};
      double least = 0;
      for (const std::int64_t rounds : rounds_of(costs.global_samples, degrees.dp)) {
        if (backbone_bytes(problem, degrees, rounds) > costs.memory_bytes) continue;
        const double samples = double(costs.global_samples) / double(rounds * degrees.dp);
        const double stage =
            runner.backbone_seconds(degrees.tp, samples * costs.backbone.sample_shape) /
            double(degrees.pp);
        const double step =
            double(rounds + degrees.pp - 1) * stage + runner.sync_seconds(costs.backbone, degrees);
        if (best.rounds > 0 && step >= least) continue;
        least = step;
        best.rounds = rounds;
      }
      if (best.rounds == 0) continue;
      module.candidates.push_back({devices, period_of(least / double(costs.global_samples))});
      choices.push_back(best);
    }
  }
  return module;
}

/// Samples start in order on the earliest free encoder replica, as far ahead as the pool holds; a
/// round of the backbone starts when its last sample is there.
class FlowLine {
 public:
  FlowLine(const BatchRunner& runner, const Degrees& encoder, std::int64_t samples_of_round)
      : runner_(runner),
        encoder_(encoder),
        samples_of_round_(samples_of_round),
        free_(static_cast<std::size_t>(encoder.dp)) {}

  /// Runs a batch whose rounds take so long each; returns when the last round ends.
  double run(const std::vector<SampleWork>& samples, double round_seconds) {
    for (std::size_t first = 0; first < samples.size(); first += samples_of_round_) {
      double ready = 0;
      const std::size_t window = starts_.size();
      const double opens = window < kPoolRounds ? 0 : starts_[window - kPoolRounds];
      const std::size_t end = std::min(first + samples_of_round_, samples.size());
      for (std::size_t sample = first; sample < end; ++sample) {
        double& replica = *std::min_element(free_.begin(), free_.end());
        replica =
            std::max(replica, opens) + runner_.encoder_seconds(encoder_.tp, samples[sample].tiles);
        ready = std::max(ready, replica);
      }
      starts_.push_back(std::max(backbone_free_, ready));
      backbone_free_ = starts_.back() + round_seconds;
    }
    return backbone_free_;
  }

 private:
  const BatchRunner& runner_;
  Degrees encoder_;
  std::int64_t samples_of_round_;
  std::vector<double> free_;    // when each encoder replica is
  std::vector<double> starts_;  // of the rounds
  double backbone_free_ = 0;
};

/// Seconds of a batch on the backbone alone, packed and dealt out evenly.
double backbone_step(BatchRunner& runner, std::size_t batch, const Choice& choice) {
  const ModuleCosts& module = runner.problem().costs.backbone;
  const Buckets buckets = runner.deal(batch, choice.degrees.dp, choice.rounds, Deal::kBalanced,
                                      choice.degrees, choice.degrees);
  const auto cost = [&](int stage, std::int64_t replica, std::int64_t round) {
    const double share =
        double(layers_of_stage(module.layers, choice.degrees.pp, stage)) / double(module.layers);
    return runner.split_backbone(
        share * runner.backbone_seconds(choice.degrees.tp,
                                        buckets.work[buckets.at(replica, round)].tokens));
  };
  return runner.run_pipelines(static_cast<int>(choice.degrees.pp), buckets, cost) +
         runner.sync_seconds(module, choice.degrees);
}

}  // namespace

PipelineAnswer solve_flowtrain(const TrainingProblem& problem) {
  BestPlan best(problem);
  BatchRunner runner(problem);
  std::vector<Choice> encoders;
  std::vector<Choice> backbones;
  const FlowProblem flow = {.encoders = {list_encoders(runner, encoders)},
                            .backbone = list_backbones(runner, backbones),
                            .devices = problem.costs.devices};
  if (encoders.empty() || backbones.empty()) return best.answer(kNothingFits);
  const FlowAllocation found = allocate_flow(flow, FlowOrder::kPublished);
  if (found.chosen.empty()) return best.answer(found.certificate.limit);
  const Choice& encoder = encoders[found.chosen[0]];
  const Choice& backbone = backbones[found.chosen[1]];
  const std::int64_t samples =
      std::max<std::int64_t>(problem.costs.global_samples / backbone.rounds, 1);
  FlowLine line(runner, encoder.degrees, samples);
  double before = 0;
  best.offer(str("encoder ", to_text(encoder.degrees), "; backbone ", to_text(backbone.degrees),
                 ", ", backbone.rounds, " microbatches"),
             [&](std::size_t batch) {
               const double end =
                   line.run(problem.batches[batch],
                            backbone_step(runner, batch, backbone) / double(backbone.rounds));
               return end - std::exchange(before, end);
             });
  return best.answer(kNothingFits);
}

}  // namespace tributary::plan
