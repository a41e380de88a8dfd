// Encoder and backbone on their own devices, step by step in one pipeline or batch by batch.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/text.h"
#include "studies/dflop/search_3d.h"
#include "studies/methods/plan_space.h"
#include "studies/methods/round_orders.h"

namespace tributary::studies {
namespace {

/// Whether the mean microbatch exceeds the tokens of a packed sequence.
bool is_above_capacity(const TrainingProblem& problem, const Plan3d& plan) {
  const double tokens = problem.costs.backbone.sample_shape * double(problem.costs.global_samples) /
                        double(plan.microbatches * plan.backbone.dp);
  return problem.capacity_tokens > 0 && tokens > problem.capacity_tokens;
}

constexpr double kRounding = 1e-6;  // passes are timed in whole nanoseconds

/// When the two groups wait for each other while they work batch by batch.
enum class Overlap { kNone, kOneBatchAhead };

/// The best backbone on a number of devices, and its seconds for every batch.
struct BackboneChoice {
  std::vector<double> seconds;
  std::vector<DeviceSeconds> counted;
  Degrees degrees;
  std::int64_t rounds = 0;
};

std::optional<BackboneChoice> best_backbone(BatchRunner& runner, std::int64_t devices,
                                            MemoryNeed& min_need) {
  const TrainingProblem& problem = runner.problem();
  const ModuleCosts& module = problem.costs.backbone;
  std::optional<BackboneChoice> best;
  double min = std::numeric_limits<double>::infinity();
  for (const Degrees& degrees : list_degrees(module, devices, problem.costs.global_samples)) {
    for (const std::int64_t rounds : rounds_of(problem, degrees.dp)) {
      const double bytes = backbone_bytes(problem, degrees, rounds);
      keep_least(min_need, bytes, [&] {
        return MemoryNeed{bytes,
                          str("backbone ", to_text(degrees), ", ", microbatches_text(rounds)),
                          fullest_of(module, degrees.pp)};
      });
      if (bytes > problem.costs.memory_bytes) continue;
      BackboneChoice choice = {{}, {}, degrees, rounds};
      double sum = 0;
      for (std::size_t batch = 0; batch < problem.batches.size() && sum < min; ++batch) {
        const Buckets& buckets =
            runner.deal(batch, degrees.dp, rounds, Deal::kInOrder, degrees, degrees);
        const std::vector<double> seconds = runner.backbone_seconds(degrees.tp, buckets);
        const auto cost = [&](int stage, std::int64_t replica, std::int64_t round) {
          const double share =
              double(layers_of_stage(module.layers, degrees.pp, stage)) / double(module.layers);
          return runner.split_backbone(share * seconds[buckets.at(replica, round)]);
        };
        // The first stage has at least as many layers as any other.
        const double share =
            double(layers_of_stage(module.layers, degrees.pp, 0)) / double(module.layers);
        if (sum + share * buckets.largest_sum(seconds) * (1 - kRounding) >= min) {
          sum = min;
          break;
        }
        (void)runner.take_counted();
        choice.seconds.push_back(runner.run_pipelines(
                                     static_cast<int>(degrees.pp), buckets,
                                     [&](int) { return degrees.tp; }, cost, min - sum) +
                                 runner.sync_seconds(module, degrees, rounds));
        choice.counted.push_back(runner.take_counted());
        sum += choice.seconds.back();
      }
      if (sum >= min) continue;
      min = sum;
      best = std::move(choice);
    }
  }
  return best;
}

/// The encoder on `devices` devices that needs the least memory.
MemoryNeed leanest_encoder(const TrainingProblem& problem, std::int64_t devices) {
  MemoryNeed min;
  for (const DegreeCosts& degree : problem.costs.encoder.degrees) {
    if (devices % degree.tp != 0) continue;
    const Degrees encoder = {degree.tp, 1, devices / degree.tp};
    keep_least(min, {encoder_bytes(problem, encoder, 1, 1), str("encoder ", to_text(encoder)),
                     problem.costs.encoder.name});
  }
  return min;
}

/// Numbers of encoder devices, sorted by the seconds of both modules at their peaks.
std::vector<std::pair<double, std::int64_t>> splits_by_bound(const TrainingProblem& problem,
                                                             Overlap overlap) {
  const Problem3d& costs = problem.costs;
  const auto on_a_device = [&](const ModuleCosts& module, double SampleWork::*shape) {
    double sum = 0;
    for (const std::vector<SampleWork>& batch : problem.batches) {
      for (const SampleWork& sample : batch) sum += sample.*shape;
    }
    double peak = 0;
    for (const DegreeCosts& degree : module.degrees)
      peak = std::max(peak, degree.throughput.peak());
    return module.sample_flops / module.sample_shape * sum /
           (peak * double(problem.batches.size()));
  };
  const double encoder = on_a_device(costs.encoder, &SampleWork::tiles);
  const double backbone = on_a_device(costs.backbone, &SampleWork::tokens);
  std::vector<std::pair<double, std::int64_t>> splits;
  for (std::int64_t devices = 1; devices < costs.devices; ++devices) {
    const double first = encoder / double(devices);
    const double second = backbone / double(costs.devices - devices);
    splits.emplace_back(overlap == Overlap::kNone ? first + second : std::max(first, second),
                        devices);
  }
  std::sort(splits.begin(), splits.end());
  return splits;
}

PipelineAnswer solve_batch_by_batch(const TrainingProblem& problem, Overlap overlap, Deal how) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  const Problem3d& costs = problem.costs;
  for (const auto& [bound, devices] : splits_by_bound(problem, overlap)) {
    if (bound * (1 - kRounding) >= best.seconds()) break;
    if (std::isfinite(best.seconds()) && runner.passes() >= problem.budget) {
      best.truncate();
      break;
    }
    MemoryNeed leanest_backbone;
    const std::optional<BackboneChoice> backbone =
        best_backbone(runner, costs.devices - devices, leanest_backbone);
    const MemoryNeed leanest = leanest_encoder(problem, devices);
    if (!backbone || leanest.bytes > costs.memory_bytes) {
      best.refuse(worse_of(leanest, leanest_backbone));
      continue;
    }
    for (const DegreeCosts& degree : costs.encoder.degrees) {
      if (devices % degree.tp != 0) continue;
      const Degrees encoder = {degree.tp, 1, devices / degree.tp};
      if (encoder_bytes(problem, encoder, 1, 1) > costs.memory_bytes) continue;
      best.offer(describe({encoder, backbone->degrees, backbone->rounds, 0}),
                 [&](std::size_t batch) {
                   const double first =
                       runner.encoder_phase(problem.batches[batch], encoder.tp, encoder.dp, how);
                   const double second = backbone->seconds[batch];
                   runner.add(backbone->counted[batch]);
                   return overlap == Overlap::kNone ? first + second : std::max(first, second);
                 });
    }
  }
  return best.answer(form_of_two(problem));
}

}  // namespace

void refuse_leanest(const TrainingProblem& problem, BestPlan& best) {
  if (const std::optional<Plan3d> leanest = find_leanest(problem.costs))
    best.refuse(need_of(problem.costs, *leanest));
}

double run_separate(BatchRunner& runner, std::size_t batch, const Plan3d& plan, Deal how,
                    bool moves_small_out, double limit) {
  const Problem3d& costs = runner.problem().costs;
  const Buckets& buckets =
      runner.deal(batch, plan.backbone.dp, plan.microbatches, how, plan.encoder, plan.backbone);
  const double busy_before = runner.counted().busy;
  std::vector<double> encoder;  // of a round: its slowest replica
  for (const std::vector<double>& tiles : runner.deal_tiles(batch, buckets, plan.encoder.dp))
    encoder.push_back(runner.encoder_phase(tiles, plan.encoder.tp));
  const double encoder_busy = runner.counted().busy - busy_before;
  const std::vector<std::int64_t> order =
      moves_small_out ? small_rounds_out(encoder, plan.encoder.pp + plan.backbone.pp)
                      : natural_order(std::ssize(encoder));
  const std::vector<double> backbone = runner.backbone_seconds(plan.backbone.tp, buckets);
  const auto cost = [&](int stage, std::int64_t replica, std::int64_t position) {
    const std::int64_t round = order[position];
    if (stage < plan.encoder.pp) {
      return runner.split_encoder(
          encoder[round] * double(layers_of_stage(costs.encoder.layers, plan.encoder.pp, stage)) /
          double(costs.encoder.layers));
    }
    return runner.split_backbone(
        backbone[buckets.at(replica, round)] *
        double(layers_of_stage(costs.backbone.layers, plan.backbone.pp, stage - plan.encoder.pp)) /
        double(costs.backbone.layers));
  };
  // The work of the encoder's stages is counted by its phases.
  const auto devices = [&](int stage) {
    return stage < plan.encoder.pp ? std::int64_t{0} : plan.backbone.tp;
  };
  const double sync =
      std::max(runner.sync_seconds(costs.encoder, plan.encoder, plan.microbatches),
               runner.sync_seconds(costs.backbone, plan.backbone, plan.microbatches));
  const double seconds = runner.run_pipelines(
      static_cast<int>(plan.encoder.pp + plan.backbone.pp), buckets, devices, cost, limit - sync,
      double(plan.encoder.devices()) / double(plan.backbone.dp));
  runner.add({.bubbles = -encoder_busy});
  return seconds + sync;
}

PipelineAnswer solve_dflop(const TrainingProblem& problem) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  const Search3dResult found = search_3d(problem.costs);
  for (const Plan3d& plan : found.plans) {
    best.offer({describe(plan), form_of(plan)}, [&](std::size_t batch) {
      return run_separate(runner, batch, plan, Deal::kBalanced, false);
    });
  }
  if (found.plans.empty()) refuse_leanest(problem, best);
  return best.answer(form_of_two(problem));
}

void offer_balanced_separate(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best) {
  constexpr std::int64_t kPairs = 40;  // of degrees, the best by the published objective
  const Search3dResult found = search_3d(problem.costs, {.keep = kPairs});
  if (found.plans.empty()) refuse_leanest(problem, best);
  for (Plan3d plan : found.plans) {
    // Fewer microbatches than the objective chooses leave more samples in each to balance.
    for (std::int64_t max = plan.microbatches; max >= 1; max = max * 2 / 3) {
      plan.microbatches = max;
      if (!is_valid(problem.costs, plan) || is_above_capacity(problem, plan)) break;
      for (const bool moves_small_out : {false, true}) {
        best.offer({describe(plan), form_of(plan)}, [&](std::size_t batch) {
          return run_separate(runner, batch, plan, Deal::kBalanced, moves_small_out);
        });
      }
    }
  }
}

namespace {

/// The text of the paper has fewer microbatches than the objective would choose, so that each has
/// more samples to balance; the published setting is within a tenth of the best makespan.
PipelineAnswer solve_with_fewest(const TrainingProblem& problem, Deal how) {
  constexpr double kWithin = 1.1;
  BatchRunner runner(problem);
  BestPlan best(runner);
  const Search3dResult found = search_3d(problem.costs, {.keep = 4000});
  std::optional<Plan3d> fewest;
  for (Plan3d plan : found.plans) {
    const double limit = kWithin * found.plans.front().seconds;
    for (plan.microbatches = 1;
         plan.microbatches * plan.backbone.dp <= problem.costs.global_samples;
         ++plan.microbatches) {
      if (fewest && plan.microbatches > fewest->microbatches) break;
      if (!is_valid(problem.costs, plan)) continue;
      plan.seconds = step_seconds(problem.costs, plan);
      if (plan.seconds > limit) continue;
      if (!fewest || plan.microbatches < fewest->microbatches || plan.seconds < fewest->seconds)
        fewest = plan;
      break;
    }
  }
  if (fewest)
    best.offer({describe(*fewest), form_of(*fewest)},
               [&](std::size_t batch) { return run_separate(runner, batch, *fewest, how, false); });
  if (found.plans.empty()) refuse_leanest(problem, best);
  return best.answer(form_of_two(problem));
}

}  // namespace

PipelineAnswer solve_dflop_fewest(const TrainingProblem& problem) {
  return solve_with_fewest(problem, Deal::kBalanced);
}

PipelineAnswer solve_dflop_without_scheduler(const TrainingProblem& problem) {
  return solve_with_fewest(problem, Deal::kInOrder);
}

PipelineAnswer solve_disttrain_batch_serial(const TrainingProblem& problem) {
  return solve_batch_by_batch(problem, Overlap::kNone, Deal::kInOrder);
}

PipelineAnswer solve_disttrain_batch_double(const TrainingProblem& problem) {
  return solve_batch_by_batch(problem, Overlap::kOneBatchAhead, Deal::kInOrder);
}

PipelineAnswer solve_disttrain_batch_double_lpt(const TrainingProblem& problem) {
  return solve_batch_by_batch(problem, Overlap::kOneBatchAhead, Deal::kBalanced);
}

}  // namespace tributary::studies
