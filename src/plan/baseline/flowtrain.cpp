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

/// Samples start in order on the earliest free encoder replica, as far ahead as the pool holds, a
/// batch of rounds; a round of the backbone starts when its last sample is there.
class FlowLine {
 public:
  FlowLine(BatchRunner& runner, const Degrees& encoder, std::int64_t rounds)
      : runner_(runner),
        encoder_(encoder),
        rounds_(static_cast<std::size_t>(rounds)),
        free_(static_cast<std::size_t>(encoder.dp)) {}

  /// Runs a batch whose rounds take so long each; returns when the last round ends.
  double run(const std::vector<SampleWork>& samples, double round_seconds) {
    for (std::size_t round = 0; round < rounds_; ++round) {
      double ready = 0;
      const double opens = starts_.size() < rounds_ ? 0 : starts_[starts_.size() - rounds_];
      const std::size_t end = (round + 1) * samples.size() / rounds_;
      for (std::size_t sample = round * samples.size() / rounds_; sample < end; ++sample) {
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
  std::size_t rounds_;          // of a batch
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

/// What FlowTrain calls the existing schemes: the split that makes filling the pipeline and the
/// slowest of its stages shortest, the encoder being one of them.
std::optional<Pair> shorten_worst_stage(const TrainingProblem& problem,
                                        const Candidates& candidates) {
  const double samples = static_cast<double>(problem.costs.global_samples);
  const FlowModule& encoder = candidates.flow.encoders[0];
  const FlowModule& backbone = candidates.flow.backbone;
  std::optional<Pair> best;
  double least = 0;
  for (std::size_t mine = 0; mine < encoder.candidates.size(); ++mine) {
    for (std::size_t other = 0; other < backbone.candidates.size(); ++other) {
      if (encoder.candidates[mine].devices + backbone.candidates[other].devices >
          problem.costs.devices)
        continue;
      const Choice& choice = candidates.backbones[other];
      const auto rounds = static_cast<double>(choice.rounds);
      const auto stages = static_cast<double>(choice.degrees.pp);
      const double encode = double(encoder.candidates[mine].period.count) * samples / rounds;
      const double stage =
          double(backbone.candidates[other].period.count) * samples / (rounds + stages - 1);
      const double step = encode + stages * stage + (rounds - 1) * std::max(encode, stage);
      if (best && step >= least) continue;
      least = step;
      best = Pair{candidates.encoders[mine], choice};
    }
  }
  return best;
}

/// Batch by batch, the encoders one ahead: samples stay where they are dealt, and whichever side
/// ends first waits for the other.
double run_synchronized(BatchRunner& runner, std::size_t batch, const Pair& pair) {
  return std::max(runner.encoder_phase(runner.problem().batches[batch], pair.encoder.degrees.tp,
                                       pair.encoder.degrees.dp, Deal::kInOrder),
                  backbone_step(runner, batch, pair.backbone, Deal::kBalanced));
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
                                                   : shorten_worst_stage(problem, candidates);
  if (!pair) return best.answer(limit);
  if (!parts.pool) {
    best.offer(describe(*pair),
               [&](std::size_t batch) { return run_synchronized(runner, batch, *pair); });
    return best.answer(kNothingFits);
  }
  const Deal how = parts.scheduler ? Deal::kBalanced : Deal::kInOrder;
  // The pool is memory of all nodes, device and host: it holds a batch. What the first batch waits
  // for is no part of the steady state, so one runs before those that count.
  FlowLine line(runner, pair->encoder.degrees, pair->backbone.rounds);
  const auto run = [&](std::size_t batch) {
    const double step = backbone_step(runner, batch, pair->backbone, how);
    return line.run(problem.batches[batch], step / double(pair->backbone.rounds));
  };
  double before = run(problem.batches.size() - 1);
  best.offer(describe(*pair), [&](std::size_t batch) {
    const double end = run(batch);
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
