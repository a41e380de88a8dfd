// FlowTrain: devices by throughput matching, samples through a pool of features.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "core/text.h"
#include "plan/flow/allocate_flow.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {
namespace {

Nanoseconds period_of(double seconds_of_sample) {
  return {std::max<std::int64_t>(std::llround(1024e9 * seconds_of_sample), 1)};
}

/// A backbone, and the rounds of a batch.
struct Choice {
  Degrees degrees;
  std::int64_t rounds = 1;
};

const Buckets& deal(const BatchRunner& runner, std::size_t batch, const Choice& choice, Deal how) {
  return runner.deal(batch, choice.degrees.dp, choice.rounds, how, choice.degrees, choice.degrees);
}

/// Candidates of both modules for one number of rounds. What a replica has in a round is one call,
/// of the encoder and of the backbone alike, so rates only compare at an equal number of rounds.
struct Candidates {
  std::int64_t rounds = 1;
  std::vector<Degrees> encoders = {};
  std::vector<Degrees> backbones = {};
  plan::FlowProblem flow = {};
};

/// Seconds for each sample on an encoder's replicas. With fewer samples in a round than replicas,
/// the remaining replicas go on with the next round.
double encode_seconds(const BatchRunner& runner, const Degrees& encoder, std::int64_t rounds) {
  const Problem3d& costs = runner.problem().costs;
  const double call =
      std::max(1.0, double(costs.global_samples) / double(rounds * encoder.dp));  // samples
  return runner.encoder_seconds(encoder.tp, call * costs.encoder.sample_shape) /
         (call * double(encoder.dp));
}

/// Among the candidates on each number of devices, those that need the least memory of one.
struct Leanest {
  std::map<std::int64_t, MemoryNeed> encoders;
  std::map<std::int64_t, MemoryNeed> backbones;
};

/// The encoders: data parallel and tensor parallel.
std::vector<Degrees> list_encoders(const TrainingProblem& problem, Leanest& leanest) {
  const Problem3d& costs = problem.costs;
  std::vector<Degrees> encoders;
  for (const DegreeCosts& degree : costs.encoder.degrees) {
    for (std::int64_t dp = 1; dp * degree.tp < costs.devices; ++dp) {
      if (costs.global_samples % dp != 0) continue;
      const Degrees degrees = {degree.tp, 1, dp};
      // As in the other methods: one sample at a time where memory is short, at the rate of a call.
      const double bytes = encoder_bytes(problem, degrees, 1, 1);
      keep_least(leanest.encoders[degrees.devices()], bytes, [&] {
        return MemoryNeed{bytes, str("encoder ", to_text(degrees)), costs.encoder.name};
      });
      if (bytes <= costs.memory_bytes) encoders.push_back(degrees);
    }
  }
  return encoders;
}

/// Seconds of a backbone's mean step, by profiled rates: the stage with the most layers sets the
/// pace.
double backbone_seconds(const BatchRunner& runner, const Degrees& degrees, std::int64_t rounds) {
  const Problem3d& costs = runner.problem().costs;
  const double samples = double(costs.global_samples) / double(rounds * degrees.dp);
  const double share =
      double(layers_of_stage(costs.backbone.layers, degrees.pp, 0)) / double(costs.backbone.layers);
  const double stage =
      share * runner.backbone_seconds(degrees.tp, samples * costs.backbone.sample_shape);
  return double(rounds + degrees.pp - 1) * stage +
         runner.sync_seconds(costs.backbone, degrees, rounds);
}

/// The number of packed sequences of the fullest batch.
std::int64_t count_packs(const BatchRunner& runner) {
  std::int64_t packs = 1;
  for (std::size_t batch = 0; batch < runner.problem().batches.size(); ++batch)
    packs = std::max(packs, deal(runner, batch, {}, Deal::kZigZag).rounds);
  return packs;
}

/// Candidates by number of rounds, ascending.
std::vector<Candidates> list_candidates(const BatchRunner& runner, Leanest& leanest) {
  const TrainingProblem& problem = runner.problem();
  const Problem3d& costs = problem.costs;
  std::map<std::int64_t, Candidates> by_rounds;
  const std::int64_t packs = problem.capacity_tokens > 0 ? count_packs(runner) : 0;
  const auto rounds_with = [&](std::int64_t replicas) {
    return packs > 0 ? std::vector{(packs + replicas - 1) / replicas}
                     : rounds_of(problem, replicas);
  };
  for (std::int64_t devices = 1; devices < costs.devices; ++devices) {
    for (const Degrees& degrees : list_degrees(costs.backbone, devices, costs.global_samples)) {
      if (costs.global_samples % degrees.dp != 0) continue;
      for (const std::int64_t rounds : rounds_with(degrees.dp)) {
        const double bytes = backbone_bytes(problem, degrees, rounds);
        keep_least(leanest.backbones[devices], bytes, [&] {
          return MemoryNeed{bytes,
                            str("backbone ", to_text(degrees), ", ", microbatches_text(rounds)),
                            fullest_of(costs.backbone, degrees.pp)};
        });
        if (bytes > costs.memory_bytes) continue;
        Candidates& mine = by_rounds[rounds];
        const double seconds = backbone_seconds(runner, degrees, rounds);
        mine.flow.backbone.candidates.push_back(
            {devices, period_of(seconds / double(costs.global_samples))});
        mine.backbones.push_back(degrees);
      }
    }
  }
  const std::vector<Degrees> encoders = list_encoders(problem, leanest);
  std::vector<Candidates> all;
  for (auto& [rounds, mine] : by_rounds) {
    if (encoders.empty()) break;
    mine.rounds = rounds;
    mine.encoders = encoders;
    mine.flow.devices = costs.devices;
    mine.flow.backbone.name = costs.backbone.name;
    plan::FlowModule& encoder =
        mine.flow.encoders.emplace_back(plan::FlowModule{.name = costs.encoder.name});
    for (const Degrees& degrees : encoders)
      encoder.candidates.push_back(
          {degrees.devices(), period_of(encode_seconds(runner, degrees, rounds))});
    all.push_back(std::move(mine));
  }
  return all;
}

/// The samples of each round go in order to the first free encoder replica, as far ahead as the
/// pool allows, which holds a batch of rounds. What a replica has of a round is one call. A round
/// of the backbone starts when its last sample has arrived.
class FlowLine {
 public:
  FlowLine(BatchRunner& runner, const Degrees& encoder)
      : runner_(runner), encoder_(encoder), free_(static_cast<std::size_t>(encoder.dp)) {}

  /// Runs a batch whose rounds take `round_seconds` each; returns when the last round ends.
  double run(const std::vector<SampleWork>& samples, std::int64_t rounds, double round_seconds) {
    const auto count = static_cast<std::size_t>(rounds);
    for (std::size_t round = 0; round < count; ++round) {
      const double opens = starts_.size() < count ? 0 : starts_[starts_.size() - count];
      const std::size_t first = round * samples.size() / count;
      const std::size_t end = (round + 1) * samples.size() / count;
      const double ready = encode(std::span(samples).subspan(first, end - first), opens);
      starts_.push_back(std::max(backbone_free_, ready));
      backbone_free_ = starts_.back() + round_seconds;
    }
    return backbone_free_;
  }

 private:
  /// Returns when the last sample of a round has been encoded.
  double encode(std::span<const SampleWork> samples, double opens) {
    std::vector<double> tiles(free_.size());  // of each replica's call
    std::vector<double> ends(free_.size());
    for (std::size_t i = 0; i < free_.size(); ++i) ends[i] = std::max(free_[i], opens);
    const std::vector<double> begins = ends;
    double ready = 0;
    for (const SampleWork& sample : samples) {
      const auto i = std::min_element(ends.begin(), ends.end()) - ends.begin();
      tiles[i] += sample.tiles;
      ends[i] = begins[i] + runner_.encoder_seconds(encoder_.tp, tiles[i]);
    }
    for (std::size_t i = 0; i < free_.size(); ++i) {
      if (tiles[i] <= 0) continue;
      runner_.add_busy((ends[i] - begins[i]) * static_cast<double>(encoder_.tp));
      free_[i] = ends[i];
      ready = std::max(ready, ends[i]);
    }
    return ready;
  }

  BatchRunner& runner_;
  Degrees encoder_;
  std::vector<double> free_;    // when each encoder replica is free
  std::vector<double> starts_;  // of the rounds
  double backbone_free_ = 0;
};

/// Seconds of a batch on the backbone, without the encoder.
double backbone_step(BatchRunner& runner, const Choice& choice, const Buckets& buckets) {
  const ModuleCosts& module = runner.problem().costs.backbone;
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
         runner.sync_seconds(module, choice.degrees, buckets.rounds);
}

/// The chosen encoder and backbone; empty where no choice fits.
struct Pair {
  Degrees encoder;
  Choice backbone;
};

/// The number of rounds and the candidates of both modules with the fastest pace; then with the
/// least difference of production and consumption, the fewest devices, the fewest rounds.
std::optional<Pair> match_throughput(const std::vector<Candidates>& all) {
  const Candidates* chosen = nullptr;
  plan::FlowAllocation best;
  // At one pace the difference is smaller when the faster side is slower.
  const auto rank = [](const plan::FlowAllocation& found) {
    return std::tuple(found.certificate.value, -std::min(found.production, found.consumption).count,
                      found.devices);
  };
  for (const Candidates& candidates : all) {
    plan::FlowAllocation found = plan::allocate_flow(candidates.flow, plan::FlowOrder::kPublished);
    if (found.chosen.empty()) continue;
    if (chosen != nullptr && rank(found) >= rank(best)) continue;
    chosen = &candidates;
    best = std::move(found);
  }
  if (chosen == nullptr) return std::nullopt;
  return Pair{chosen->encoders[best.chosen[0]],
              {chosen->backbones[best.chosen[1]], chosen->rounds}};
}

/// FlowTrain's "existing schemes": the split that minimises the time to fill the pipeline and its
/// slowest stage, where the encoder is one of the stages.
std::optional<Pair> shorten_worst_stage(const TrainingProblem& problem,
                                        const std::vector<Candidates>& all) {
  const double samples = static_cast<double>(problem.costs.global_samples);
  std::optional<Pair> best;
  double min = 0;
  for (const Candidates& candidates : all) {
    const plan::FlowModule& encoder = candidates.flow.encoders[0];
    const plan::FlowModule& backbone = candidates.flow.backbone;
    const auto rounds = static_cast<double>(candidates.rounds);
    for (std::size_t mine = 0; mine < encoder.candidates.size(); ++mine) {
      for (std::size_t other = 0; other < backbone.candidates.size(); ++other) {
        if (encoder.candidates[mine].devices + backbone.candidates[other].devices >
            problem.costs.devices)
          continue;
        const Degrees& degrees = candidates.backbones[other];
        const auto stages = static_cast<double>(degrees.pp);
        const double encode = double(encoder.candidates[mine].period.count) * samples / rounds;
        const double stage =
            double(backbone.candidates[other].period.count) * samples / (rounds + stages - 1);
        const double step = encode + stages * stage + (rounds - 1) * std::max(encode, stage);
        if (best && step >= min) continue;
        min = step;
        best = Pair{candidates.encoders[mine], {degrees, candidates.rounds}};
      }
    }
  }
  return best;
}

/// Runs batch by batch with the encoder one ahead: samples stay where they are dispatched, and the
/// side that ends first waits for the other.
double run_synchronized(BatchRunner& runner, std::size_t batch, const Pair& pair) {
  return std::max(
      runner.encoder_phase(runner.problem().batches[batch], pair.encoder.tp, pair.encoder.dp,
                           Deal::kInOrder),
      backbone_step(runner, pair.backbone, deal(runner, batch, pair.backbone, Deal::kZigZag)));
}

std::string describe(const Pair& pair) {
  return str("encoder ", to_text(pair.encoder), "; backbone ", to_text(pair.backbone.degrees), ", ",
             microbatches_text(pair.backbone.rounds));
}

/// The trainer's form of a pair with the pool.
TrainerForm form_of(const Pair& pair) {
  return {.backbone = pair.backbone.degrees,
          .microbatches = pair.backbone.rounds,
          .placement = config::Placement::kFlow,
          .encoder = pair.encoder};
}

/// A run without one of its parts.
struct Parts {
  bool pool = true;
  bool allocator = true;
  bool scheduler = true;
};

/// Explains why there is no pair: the leanest one within the devices needs too much memory.
PipelineAnswer explain(const TrainingProblem& problem, BestPlan& best, const Leanest& leanest) {
  for (const auto& [mine, encoder] : leanest.encoders) {
    for (const auto& [other, backbone] : leanest.backbones)
      if (mine + other <= problem.costs.devices) best.refuse(worse_of(encoder, backbone));
  }
  return best.answer("dp of both modules divides the samples, each is on a part of the devices");
}

PipelineAnswer solve_flow(const TrainingProblem& problem, const Parts& parts) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  Leanest leanest;
  const std::vector<Candidates> candidates = list_candidates(runner, leanest);
  const std::optional<Pair> pair =
      parts.allocator ? match_throughput(candidates) : shorten_worst_stage(problem, candidates);
  if (!pair) return explain(problem, best, leanest);
  if (!parts.pool) {
    best.offer(describe(*pair),
               [&](std::size_t batch) { return run_synchronized(runner, batch, *pair); });
    return best.answer("");
  }
  const Deal how = parts.scheduler ? Deal::kZigZag : Deal::kInOrder;
  // The pool has the memory of all nodes, device and host, and holds a batch. The wait of the first
  // batch is not steady state, so one batch runs before those that count.
  FlowLine line(runner, pair->encoder);
  const auto run = [&](std::size_t batch) {
    const Buckets& buckets = deal(runner, batch, pair->backbone, how);
    const double step = backbone_step(runner, pair->backbone, buckets);
    return line.run(problem.batches[batch], buckets.rounds, step / double(buckets.rounds));
  };
  double before = run(problem.batches.size() - 1);
  best.offer({describe(*pair), form_of(*pair)}, [&](std::size_t batch) {
    const double end = run(batch);
    return end - std::exchange(before, end);
  });
  return best.answer("");
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

}  // namespace tributary::studies
