// DistTrain by microbatches: its whole space, raced by lower bounds on any schedule.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "core/text.h"
#include "studies/dflop/search_3d.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {
namespace {

constexpr double kTimeRounding = 1e-6;  // passes are timed in whole nanoseconds

/// Seconds of a module's microbatches in a step, all layers.
struct ModuleWork {
  double total = 0;                                      // of the replica with the most
  double min = std::numeric_limits<double>::infinity();  // min over microbatches

  void add(double seconds) {
    total += seconds;
    min = std::min(min, seconds);
  }
};

/// Lower bounds for any order of passes, shared by all plans with the same buckets. A stage works
/// on all microbatches, one after another; before the first of them and after the last one some
/// microbatch goes through all other stages.
class StepBound {
 public:
  StepBound(const BatchRunner& runner, std::int64_t replicas, std::int64_t microbatches)
      : runner_(runner) {
    const std::size_t batches = runner.problem().batches.size();
    for (std::size_t batch = 0; batch < batches; ++batch) {
      const Buckets buckets = runner.deal_in_order(batch, replicas, microbatches);
      rounds_.push_back(rounds_of_batch(batch, buckets));
      for (const DegreeCosts& degree : runner.problem().costs.backbone.degrees)
        backbones_[degree.tp].push_back(backbone_work(degree.tp, buckets));
    }
  }

  /// Lower bound [seconds] on each batch.
  [[nodiscard]] std::vector<double> seconds(const Plan3d& plan) {
    const Problem3d& costs = runner_.problem().costs;
    const double sync =
        std::max(runner_.sync_seconds(costs.encoder, plan.encoder, plan.microbatches),
                 runner_.sync_seconds(costs.backbone, plan.backbone, plan.microbatches));
    const std::vector<ModuleWork>& encoders = encoder_work(plan.encoder);
    const std::vector<ModuleWork>& backbones = backbones_.at(plan.backbone.tp);
    std::vector<double> seconds;
    for (std::size_t batch = 0; batch < rounds_.size(); ++batch) {
      const ModuleWork& encoder = encoders[batch];
      seconds.push_back(sync +
                        std::max(on_stages(encoder, costs.encoder.layers, plan.encoder.pp),
                                 encoder.min + on_stages(backbones[batch], costs.backbone.layers,
                                                         plan.backbone.pp)));
    }
    return seconds;
  }

 private:
  /// The encoder's work in a round, for all replicas of the backbone.
  struct Round {
    double tiles = 0;
    double largest = 0;  // max over samples
  };

  /// The max of the last stage and the last of the stages with one more layer.
  [[nodiscard]] static double on_stages(const ModuleWork& work, std::int64_t layers,
                                        std::int64_t stages) {
    const std::int64_t larger = layers % stages;
    const auto bound = [&](std::int64_t stage) {
      const std::int64_t before = stage * (layers / stages) + std::min(stage, larger);
      return (work.total * double(layers_of_stage(layers, stages, stage)) +
              work.min * double(before)) /
             double(layers);
    };
    return std::max(bound(stages - 1), larger > 0 ? bound(larger - 1) : 0);
  }

  [[nodiscard]] std::vector<Round> rounds_of_batch(std::size_t batch,
                                                   const Buckets& buckets) const {
    std::vector<Round> rounds(static_cast<std::size_t>(buckets.rounds));
    for (std::size_t bucket = 0; bucket < buckets.work.size(); ++bucket) {
      Round& round = rounds[bucket / static_cast<std::size_t>(buckets.replicas)];
      round.tiles += buckets.work[bucket].tiles;
      for (const std::int32_t sample : buckets.samples[bucket])
        round.largest = std::max(round.largest, runner_.problem().batches[batch][sample].tiles);
    }
    return rounds;
  }

  [[nodiscard]] ModuleWork backbone_work(std::int64_t tp, const Buckets& buckets) const {
    ModuleWork max;
    for (std::int64_t replica = 0; replica < buckets.replicas; ++replica) {
      ModuleWork work;
      for (std::int64_t round = 0; round < buckets.rounds; ++round)
        work.add(runner_.backbone_seconds(tp, buckets.work[buckets.at(replica, round)].tokens));
      max = {std::max(max.total, work.total), std::min(max.min, work.min)};
    }
    return max;
  }

  /// A round's samples on the encoder's replicas: the fullest replica has at least the mean and at
  /// least the largest sample.
  [[nodiscard]] const std::vector<ModuleWork>& encoder_work(const Degrees& encoder) {
    const auto [found, is_new] = encoders_.try_emplace({encoder.tp, encoder.dp});
    if (!is_new) return found->second;
    for (const std::vector<Round>& rounds : rounds_) {
      ModuleWork work;
      for (const Round& round : rounds)
        work.add(runner_.encoder_seconds(
            encoder.tp, std::max(round.tiles / double(encoder.dp), round.largest)));
      found->second.push_back(work);
    }
    return found->second;
  }

  const BatchRunner& runner_;
  std::vector<std::vector<Round>> rounds_;                     // [batches][rounds]
  std::map<std::int64_t, std::vector<ModuleWork>> backbones_;  // by tp: [batches]
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<ModuleWork>> encoders_;  // tp, dp
};

/// Numbers of microbatches of a replica: the min for every number of samples in one. Packed
/// sequences have their own number.
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
  double bound = 0;  // seconds of the mean batch
  Plan3d plan = {};
  std::vector<double> min = {};  // [batches] lower bound in seconds

  /// Sorts by bound, then in the order of the space.
  [[nodiscard]] auto key() const {
    const auto order = [](const Degrees& degrees) {
      return std::tuple(degrees.pp, degrees.tp, degrees.dp);
    };
    return std::tuple(bound, plan.encoder.devices(), order(plan.backbone), plan.microbatches,
                      order(plan.encoder));
  }
};

constexpr std::size_t kMaxCandidates = 120'000;

/// The plans that fit and may be below a limit, as few as their bounds allow.
class CandidateList {
 public:
  CandidateList(const BatchRunner& runner, double limit)
      : problem_(runner.problem()), runner_(runner), limit_(limit * (1 + 2 * kTimeRounding)) {
    const auto batches = static_cast<double>(problem_.batches.size());
    for (const std::vector<SampleWork>& batch : problem_.batches) {
      for (const SampleWork& sample : batch) {
        tiles_ += sample.tiles / batches;
        tokens_ += sample.tokens / batches;
      }
    }
    const ModuleCosts& encoder = problem_.costs.encoder;
    for (std::int64_t devices = 0; devices < problem_.costs.devices; ++devices) {
      encoders_.push_back(list_degrees(encoder, devices, problem_.costs.global_samples));
      std::erase_if(encoders_.back(), [&](const Degrees& degrees) {
        return min_seconds(encoder, degrees, tiles_) >= limit_;
      });
    }
  }

  [[nodiscard]] std::vector<Candidate> list() {
    const std::int64_t max = std::min(problem_.costs.devices - 1, problem_.costs.global_samples);
    for (std::int64_t replicas = 1; replicas <= max && !is_cut(); ++replicas) {
      const std::vector<Degrees> backbones = list_backbones(replicas);
      if (backbones.empty()) continue;
      for (const std::int64_t microbatches : microbatches_of(problem_, replicas))
        if (!is_cut()) list_plans(backbones, microbatches);
    }
    std::sort(found_.begin(), found_.end(),
              [](const Candidate& a, const Candidate& b) { return a.key() < b.key(); });
    return std::move(found_);
  }
  /// Whether the budget ran out before the space did.
  [[nodiscard]] bool is_cut() const {
    return looked_at_ >= problem_.budget / 4 || found_.size() >= kMaxCandidates;
  }

 private:
  /// Backbones with `replicas` replicas for which the mean batch allows a plan below the limit.
  [[nodiscard]] std::vector<Degrees> list_backbones(std::int64_t replicas) const {
    const ModuleCosts& module = problem_.costs.backbone;
    std::vector<Degrees> found;
    for (const DegreeCosts& degree : module.degrees) {
      for (std::int64_t stages = 1; stages <= module.layers; ++stages) {
        const Degrees backbone = {degree.tp, stages, replicas};
        if (backbone.devices() < problem_.costs.devices &&
            min_seconds(module, backbone, tokens_) < limit_)
          found.push_back(backbone);
      }
    }
    return found;
  }

  void list_plans(const std::vector<Degrees>& backbones, std::int64_t microbatches) {
    std::optional<StepBound> bound;
    for (const Degrees& backbone : backbones) {
      for (const Degrees& encoder : encoders_[problem_.costs.devices - backbone.devices()]) {
        ++looked_at_;
        const Plan3d plan = {encoder, backbone, microbatches, 0};
        if (!is_valid(problem_.costs, plan)) continue;
        if (!bound) {
          bound.emplace(runner_, backbone.dp, microbatches);
          looked_at_ += problem_.costs.global_samples * std::ssize(problem_.batches);
        }
        std::vector<double> min = bound->seconds(plan);
        const double mean = std::accumulate(min.begin(), min.end(), 0.0) / double(min.size());
        if (mean < limit_) found_.push_back({mean, plan, std::move(min)});
      }
    }
  }

  /// Seconds of the slowest stage with the mean batch, at the best throughput of any shape.
  [[nodiscard]] static double min_seconds(const ModuleCosts& module, const Degrees& degrees,
                                          double shape) {
    const double layers = std::ceil(double(module.layers) / double(degrees.pp));
    return module.sample_flops / module.sample_shape * shape * layers / double(module.layers) /
           (costs_at(module, degrees.tp).throughput.peak() * double(degrees.tp * degrees.dp));
  }

  const TrainingProblem& problem_;
  const BatchRunner& runner_;
  double limit_;
  double tiles_ = 0;   // of the mean batch
  double tokens_ = 0;  // of the mean batch
  std::int64_t looked_at_ = 0;
  std::vector<std::vector<Degrees>> encoders_;  // [devices] that allow a plan below the limit
  std::vector<Candidate> found_;
};

RacedCost cost_of(BatchRunner& runner, const Plan3d& plan) {
  return [&runner, &plan](std::size_t batch, double limit) {
    return run_separate(runner, batch, plan, Deal::kInOrder, true, limit);
  };
}

void sort_by_buckets(std::vector<Candidate>::iterator begin, std::vector<Candidate>::iterator end) {
  const auto buckets = [](const Candidate& candidate) {
    const Plan3d& plan = candidate.plan;
    return std::tuple(plan.backbone.dp, plan.microbatches, plan.encoder.dp, candidate.key());
  };
  std::sort(begin, end,
            [&](const Candidate& a, const Candidate& b) { return buckets(a) < buckets(b); });
}

/// Offers the best plans of the published objective, each with all numbers of microbatches of the
/// space: when samples are dispatched again, fewer may do.
void offer_published(BatchRunner& runner, BestPlan& best) {
  constexpr std::int64_t kPairs = 16;  // of degrees
  const std::vector<double> nothing(runner.problem().batches.size());
  for (const Plan3d& plan : search_3d(runner.problem().costs, {.keep = kPairs}).plans) {
    const std::vector<std::int64_t> mine = microbatches_of(runner.problem(), plan.backbone.dp);
    for (const std::int64_t microbatches : mine) {
      const Plan3d own = {plan.encoder, plan.backbone, microbatches, 0};
      if (is_valid(runner.problem().costs, own))
        best.race({describe(own), form_of(own)}, cost_of(runner, own), nothing);
    }
  }
}

}  // namespace

PipelineAnswer solve_disttrain_microbatch(const TrainingProblem& problem) {
  BatchRunner runner(problem);
  BestPlan published(runner);
  offer_published(runner, published);
  CandidateList list(runner, published.seconds());
  std::vector<Candidate> candidates = list.list();
  BestPlan best(runner);
  bool is_cut = list.is_cut();
  std::int64_t looked_at = 0;
  // Large parts are sorted by bound, and within them by buckets, so that each is dispatched once.
  constexpr std::ptrdiff_t kPart = 8192;
  for (auto part = candidates.begin(); part != candidates.end() && !is_cut;) {
    if (part->bound * (1 - kTimeRounding) >= best.seconds()) break;
    const auto end = part + std::min(kPart, candidates.end() - part);
    if (std::ssize(candidates) > kPart) sort_by_buckets(part, end);
    for (; part != end && !is_cut; ++part) {
      if (part->bound * (1 - kTimeRounding) >= best.seconds()) continue;
      is_cut |= looked_at >= 2 * problem.budget || runner.passes() >= problem.budget;
      if (is_cut) break;
      best.race({describe(part->plan), form_of(part->plan)}, cost_of(runner, part->plan),
                part->min);
      looked_at += problem.costs.global_samples * std::ssize(problem.batches);
    }
  }
  if (candidates.empty()) refuse_leanest(problem, best);
  BestPlan& found = is_cut && published.seconds() < best.seconds() ? published : best;
  if (is_cut) found.truncate();
  return found.answer(form_of_two(problem));
}

}  // namespace tributary::studies
