// DistTrain by microbatches: its whole space, raced by what no schedule can be below.

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "core/text.h"
#include "plan/baseline/plan_space.h"

namespace tributary::plan {
namespace {

/// Seconds of a module's microbatches in a step, all layers.
struct ModuleWork {
  double total = 0;  // of the replica with the most
  double least = 0;  // of any microbatch
};

/// What no order of passes makes shorter. A stage works on all microbatches, one after another;
/// before the first and after the last of them some microbatch passes all stages in front of it.
class StepBound {
 public:
  explicit StepBound(const BatchRunner& runner) : runner_(runner) {}

  /// Seconds of the mean batch, with samples in their order.
  [[nodiscard]] double seconds(const Plan3d& plan) {
    const Problem3d& costs = runner_.problem().costs;
    const std::size_t batches = runner_.problem().batches.size();
    double sum = 0;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      const ModuleWork encoder = encoder_work(batch, plan);
      const ModuleWork backbone = backbone_work(batch, plan);
      sum += std::max(on_stages(encoder, costs.encoder.layers, plan.encoder.pp),
                      encoder.least + on_stages(backbone, costs.backbone.layers, plan.backbone.pp));
    }
    return sum / static_cast<double>(batches) +
           std::max(runner_.sync_seconds(costs.encoder, plan.encoder, plan.microbatches),
                    runner_.sync_seconds(costs.backbone, plan.backbone, plan.microbatches));
  }

 private:
  /// Of the last stage and of the last of those with a layer more.
  [[nodiscard]] static double on_stages(const ModuleWork& work, std::int64_t layers,
                                        std::int64_t stages) {
    const auto bound = [&](std::int64_t stage) {
      std::int64_t before = 0;
      for (std::int64_t other = 0; other < stage; ++other)
        before += layers_of_stage(layers, stages, other);
      return (work.total * double(layers_of_stage(layers, stages, stage)) +
              work.least * double(before)) /
             double(layers);
    };
    const std::int64_t larger = layers % stages;
    return std::max(bound(stages - 1), larger > 0 ? bound(larger - 1) : 0);
  }

  [[nodiscard]] const Buckets& deal(std::size_t batch, const Plan3d& plan) const {
    return runner_.deal(batch, plan.backbone.dp, plan.microbatches, Deal::kInOrder, {}, {});
  }

  [[nodiscard]] ModuleWork backbone_work(std::size_t batch, const Plan3d& plan) {
    const auto [found, is_new] = backbones_.try_emplace(
        {batch, plan.backbone.tp, plan.backbone.dp, plan.microbatches, 0, 0});
    if (!is_new) return found->second;
    const Buckets& buckets = deal(batch, plan);
    ModuleWork work = {0, std::numeric_limits<double>::infinity()};
    for (std::int64_t replica = 0; replica < buckets.replicas; ++replica) {
      double total = 0;
      for (std::int64_t round = 0; round < buckets.rounds; ++round) {
        const double seconds = runner_.backbone_seconds(
            plan.backbone.tp, buckets.work[buckets.at(replica, round)].tokens);
        total += seconds;
        work.least = std::min(work.least, seconds);
      }
      work.total = std::max(work.total, total);
    }
    return found->second = work;
  }

  /// A round's samples on the encoder's replicas: the fullest has the mean at least, and the
  /// largest sample.
  [[nodiscard]] ModuleWork encoder_work(std::size_t batch, const Plan3d& plan) {
    const auto [found, is_new] = encoders_.try_emplace(
        {batch, plan.encoder.tp, plan.encoder.dp, plan.microbatches, plan.backbone.dp, 0});
    if (!is_new) return found->second;
    const Buckets& buckets = deal(batch, plan);
    ModuleWork work = {0, std::numeric_limits<double>::infinity()};
    for (std::int64_t round = 0; round < buckets.rounds; ++round) {
      double tiles = 0;
      double largest = 0;
      for (std::int64_t replica = 0; replica < buckets.replicas; ++replica) {
        const std::size_t bucket = buckets.at(replica, round);
        tiles += buckets.work[bucket].tiles;
        for (const std::int32_t sample : buckets.samples[bucket])
          largest = std::max(largest, runner_.problem().batches[batch][sample].tiles);
      }
      const double seconds = runner_.encoder_seconds(
          plan.encoder.tp, std::max(tiles / double(plan.encoder.dp), largest));
      work.total += seconds;
      work.least = std::min(work.least, seconds);
    }
    return found->second = work;
  }

  using Key =
      std::tuple<std::size_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  const BatchRunner& runner_;
  std::map<Key, ModuleWork> backbones_;
  std::map<Key, ModuleWork> encoders_;
};

/// Numbers of microbatches of a replica: the least for every number of samples in one. Packed
/// sequences have theirs.
std::vector<std::int64_t> microbatches_of(const TrainingProblem& problem, std::int64_t replicas) {
  if (problem.capacity_tokens > 0) return rounds_of(problem, replicas);
  const std::int64_t mine = problem.costs.global_samples / replicas;
  std::vector<std::int64_t> found;
  for (std::int64_t samples = mine; samples >= 1; --samples) {
    const std::int64_t microbatches = (mine + samples - 1) / samples;
    if (found.empty() || found.back() != microbatches) found.push_back(microbatches);
  }
  return found;
}

struct Candidate {
  double bound = 0;  // seconds
  Plan3d plan = {};
};

/// Every plan that fits, by its bound.
std::vector<Candidate> list_candidates(const BatchRunner& runner) {
  const TrainingProblem& problem = runner.problem();
  const Problem3d& costs = problem.costs;
  StepBound bound(runner);
  std::vector<Candidate> found;
  for (std::int64_t devices = 1; devices < costs.devices; ++devices) {
    const auto encoders = list_degrees(costs.encoder, devices, costs.global_samples);
    for (const Degrees& backbone :
         list_degrees(costs.backbone, costs.devices - devices, costs.global_samples)) {
      for (const std::int64_t microbatches : microbatches_of(problem, backbone.dp)) {
        for (const Degrees& encoder : encoders) {
          const Plan3d plan = {encoder, backbone, microbatches, 0};
          if (is_valid(costs, plan)) found.push_back({bound.seconds(plan), plan});
        }
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
  return found;
}

}  // namespace

PipelineAnswer solve_disttrain_microbatch(const TrainingProblem& problem) {
  constexpr double kRounding = 1e-6;  // passes are timed in whole nanoseconds
  BatchRunner runner(problem);
  BestPlan best(runner);
  const std::vector<Candidate> candidates = list_candidates(runner);
  for (const auto& [bound, plan] : candidates) {
    if (bound * (1 - kRounding) >= best.seconds()) break;
    best.offer(describe(plan), [&](std::size_t batch) {
      return run_separate(runner, batch, plan, Deal::kInOrder, true);
    });
  }
  if (candidates.empty()) refuse_leanest(problem, best);
  return best.answer(form_of_two(problem));
}

}  // namespace tributary::plan
