// FlowTrain: devices by throughput matching, samples through a pool of features.

#include <algorithm>
#include <cmath>
#include <optional>
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
    for (std::int64_t dp = 1; dp * degree.tp < costs.devices; ++dp) {
      if (costs.global_samples % dp != 0) continue;
      if (encoder_bytes(runner.problem(), {degree.tp, 1, dp}, 1, 1) > costs.memory_bytes) continue;
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
      for (const std::int64_t rounds : rounds_of(problem, degrees.dp)) {
        if (backbone_bytes(problem, degrees, rounds) > costs.memory_bytes) continue;
        const double samples = double(costs.global_samples) / double(rounds * degrees.dp);
        // Rates are profiled, so that the stage with the most layers sets the pace.
        const double share = double(layers_of_stage(costs.backbone.layers, degrees.pp, 0)) /
                             double(costs.backbone.layers);
        const double stage =
            share * runner.backbone_seconds(degrees.tp, samples * costs.backbone.sample_shape);
        const double step = double(rounds + degrees.pp - 1) * stage +
                            runner.sync_seconds(costs.backbone, degrees, rounds);
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
  FlowLine(BatchRunner& runner, const Degrees& encoder, std::int64_t samples_of_round)
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
        const double seconds = runner_.encoder_seconds(encoder_.tp, samples[sample].tiles);
        runner_.add_busy(seconds * static_cast<double>(encoder_.tp));
        replica = std::max(replica, opens) + seconds;
        ready = std::max(ready, replica);
      }
      starts_.push_back(std::max(backbone_free_, ready));
      backbone_free_ = starts_.back() + round_seconds;
    }
    return backbone_free_;
  }

 private:
  BatchRunner& runner_;
  Degrees encoder_;
  std::int64_t samples_of_round_;
  std::vector<double> free_;    // when each encoder replica is
  std::vector<double> starts_;  // of the rounds
  double backbone_free_ = 0;
};

/// Seconds of a batch on the backbone alone.
double backbone_step(BatchRunner& runner, std::size_t batch, const Choice& choice, Deal how) {
  const ModuleCosts& module = runner.problem().costs.backbone;
  const Buckets buckets =
      runner.deal(batch, choice.degrees.dp, choice.rounds, how, choice.degrees, choice.degrees);
  const auto cost = [&](int stage, std::int64_t replica, std::int64_t round) {
    const double share =
        double(layers_of_stage(module.layers, choice.degrees.pp, stage)) / double(module.layers);
    return runner.split_backbone(
        share * runner.backbone_seconds(choice.degrees.tp,
                                        buckets.work[buckets.at(replica, round)].tokens));
  };
  return runner.run_pipelines(
             static_cast<int>(choice.degrees.pp), buckets, [&](int) { return choice.degrees.tp; },
             cost) +
         runner.sync_seconds(module, choice.degrees, choice.rounds);
}

/// Candidates of both modules, and what the published problem chooses of them.
struct Candidates {
  explicit Candidates(const BatchRunner& runner)
      : flow({.encoders = {list_encoders(runner, encoders)},
              .backbone = list_backbones(runner, backbones),
              .devices = runner.problem().costs.devices}) {}

  std::vector<Choice> encoders;
  std::vector<Choice> backbones;
  FlowProblem flow;
};

/// Encoder and backbone as chosen; nothing where no choice fits.
struct Pair {
  Choice encoder;
  Choice backbone;
};

std::optional<Pair> match_throughput(const Candidates& candidates, std::string& limit) {
  limit = kNothingFits;
  if (candidates.encoders.empty() || candidates.backbones.empty()) return std::nullopt;
  const FlowAllocation found = allocate_flow(candidates.flow, FlowOrder::kPublished);
  limit = found.certificate.limit;
  if (found.chosen.empty()) return std::nullopt;
  return Pair{candidates.encoders[found.chosen[0]], candidates.backbones[found.chosen[1]]};
}

/// Devices in proportion to the parameters, each module's fastest candidate within its own.
std::optional<Pair> divide_by_parameters(const TrainingProblem& problem,
                                         const Candidates& candidates) {
  const auto parameters = [](const ModuleCosts& module) {
    return module.degrees.front().state_bytes * double(module.degrees.front().tp) *
           module.parameter_share;
  };
  const double encoder = parameters(problem.costs.encoder);
  const double share = encoder / (encoder + parameters(problem.costs.backbone));
  const auto devices = static_cast<double>(problem.costs.devices);
  const auto mine = std::max<std::int64_t>(std::llround(share * devices), 1);
  const auto fastest = [](const FlowModule& module, std::int64_t limit) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < module.candidates.size(); ++i) {
      if (module.candidates[i].devices > limit) continue;
      if (!best || module.candidates[i].period < module.candidates[*best].period) best = i;
    }
    return best;
  };
  const auto first = fastest(candidates.flow.encoders[0], mine);
  const auto second = fastest(candidates.flow.backbone, problem.costs.devices - mine);
  if (!first || !second) return std::nullopt;
  return Pair{candidates.encoders[*first], candidates.backbones[*second]};
}

/// Each batch after the one before: samples stay where they are dealt, and the backbone waits.
double run_serial(BatchRunner& runner, std::size_t batch, const Pair& pair) {
  return runner.encoder_phase(runner.problem().batches[batch], pair.encoder.degrees.tp,
                              pair.encoder.degrees.dp, Deal::kInOrder) +
         backbone_step(runner, batch, pair.backbone, Deal::kBalanced);
}

std::string describe(const Pair& pair) {
  return str("encoder ", to_text(pair.encoder.degrees), "; backbone ",
             to_text(pair.backbone.degrees), ", ", pair.backbone.rounds, " microbatches");
}

/// What runs, without one of its parts.
struct Parts {
  bool pool = true;
  bool allocator = true;
  bool scheduler = true;
};

PipelineAnswer solve_flow(const TrainingProblem& problem, const Parts& parts) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  const Candidates candidates(runner);
  std::string limit = kNothingFits;
  const std::optional<Pair> pair = parts.allocator ? match_throughput(candidates, limit)
                                                   : divide_by_parameters(problem, candidates);
  if (!pair) return best.answer(limit);
  if (!parts.pool) {
    best.offer(describe(*pair),
               [&](std::size_t batch) { return run_serial(runner, batch, *pair); });
    return best.answer(kNothingFits);
  }
  const std::int64_t samples =
      std::max<std::int64_t>(problem.costs.global_samples / pair->backbone.rounds, 1);
  const Deal how = parts.scheduler ? Deal::kBalanced : Deal::kInOrder;
  FlowLine line(runner, pair->encoder.degrees, samples);
  double before = 0;
  best.offer(describe(*pair), [&](std::size_t batch) {
    const double end =
        line.run(problem.batches[batch],
                 backbone_step(runner, batch, pair->backbone, how) / double(pair->backbone.rounds));
    return end - std::exchange(before, end);
  });
  return best.answer(kNothingFits);
}

}  // namespace

PipelineAnswer solve_flowtrain(const TrainingProblem& problem) { return solve_flow(problem, {}); }

PipelineAnswer solve_flowtrain_without_pool(const TrainingProblem& problem) {
  return solve_flow(problem, {.pool = false});
}

PipelineAnswer solve_flowtrain_without_allocator(const TrainingProblem& problem) {
  return solve_flow(problem, {.allocator = false});
}

PipelineAnswer solve_flowtrain_without_scheduler(const TrainingProblem& problem) {
  return solve_flow(problem, {.scheduler = false});
}

}  // namespace tributary::plan
