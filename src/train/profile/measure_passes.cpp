#include "train/profile/measure_passes.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "core/error.h"
#include "parallel/unit_chain.h"
#include "train/executor/executor.h"
#include "train/profile/pass_clock.h"

namespace tributary::train {
namespace {

using schedule::Action;
using schedule::Op;

enum class Mode { kPlain, kWeightsPutOff, kRecomputed };

/// Sizes and uses of the layers, summed over the microbatches of one round.
struct Round {
  LayerUses uses;
  std::map<LayerKey, double> items;  // tokens or patches of the microbatches that use the layer
  std::map<LayerKey, double> times_used;
  double forward = 0;
  double backward = 0;
};

std::int64_t patches_of(std::span<const data::EncodedSample* const> samples) {
  std::int64_t patches = 0;
  for (const data::EncodedSample* sample : samples)
    for (const data::PatchedItem& item : sample->items) patches += item.grid.patches();
  return patches;
}

std::int64_t tokens_of(std::span<const data::EncodedSample* const> samples) {
  std::int64_t tokens = 0;
  for (const data::EncodedSample* sample : samples) tokens += std::ssize(sample->tokens);
  return tokens;
}

/// Runs one microbatch by the executor, and takes the marks of its layers.
class MarkedRun {
 public:
  MarkedRun(model::Model& model, const config::RunConfig& config, PassClock& clock)
      : model_(model), config_(config), clock_(clock) {}

  void run(std::span<const data::EncodedSample* const> samples, Mode mode, Round& round) {
    std::vector<Action> actions{{.op = Op::kForward}};
    if (mode == Mode::kWeightsPutOff) {
      actions.push_back({.op = Op::kBackwardInput});
      actions.push_back({.op = Op::kBackwardWeight});
    } else {
      actions.push_back({.op = Op::kBackward});
    }
    if (!trains()) actions.resize(1);
    stretches_.clear();
    std::size_t action = 0;
    const ExecutorOptions options{.targets = 1,
                                  .sources = static_cast<int>(config_.data.sources.size()),
                                  .collate = [&](int /*index*/) { return collate_now(samples); },
                                  .on_action =
                                      [&] {
                                        if (action > 0) stretches_.push_back(clock_.end());
                                        if (action > 0) clock_.begin();
                                        ++action;
                                      }};
    const RunLanes run = one_lane();
    Executor executor(model_, run, options);
    std::vector<LaneAction> of_lane;
    for (const Action& each : actions) of_lane.push_back({.lane = run.backbone, .action = each});
    executor.run(of_lane);
    stretches_.push_back(clock_.end());
    add(samples, round);
  }

 private:
  [[nodiscard]] bool trains() const {
    return std::ranges::any_of(model_.units(), [](const auto& unit) { return unit->trainable(); });
  }

  /// Collates and then starts the clock of the forward.
  Microbatch collate_now(std::span<const data::EncodedSample* const> samples) {
    Microbatch microbatch = collate(samples, model_.config(), config_.model.mrope,
                                    model_.units().front()->shard_value().device());
    clock_.begin();
    return microbatch;
  }

  void add(std::span<const data::EncodedSample* const> samples, Round& round) const {
    const auto tokens = static_cast<double>(tokens_of(samples));
    const auto patches = static_cast<double>(patches_of(samples));
    const LayerUses forward = cut_forward(stretches_.front());
    for (const auto& [key, use] : forward) {
      round.items[key] += key.module == "backbone" ? tokens : patches;
      round.times_used[key] += 1;
      round.uses[key] += use;
    }
    round.forward += stretches_.front().end.time - stretches_.front().begin.time;
    for (std::size_t i = 1; i < stretches_.size(); ++i) {
      for (const auto& [key, use] : cut_backward(stretches_[i])) round.uses[key] += use;
      round.backward += stretches_[i].end.time - stretches_[i].begin.time;
    }
  }

  model::Model& model_;
  const config::RunConfig& config_;
  PassClock& clock_;
  std::vector<MarkedStretch> stretches_;
};

/// Sets what the model keeps and whether it puts weight gradients off; restores both at its end.
class ModeGuard {
 public:
  ModeGuard(model::Model& model, Mode mode, const config::RunConfig& config)
      : model_(model), config_(config), splits_(model.layout().chain->options().splits_backward) {
    const std::vector<config::ModuleRecompute> all{{"vision"}, {"projector"}, {"backbone"}};
    model.set_recompute(mode == Mode::kRecomputed ? all : std::vector<config::ModuleRecompute>{});
    model.layout().chain->split_backward(mode == Mode::kWeightsPutOff);
  }
  ~ModeGuard() {
    model_.set_recompute(config_.model.recompute, config_.model.offload);
    model_.layout().chain->split_backward(splits_);
  }
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  model::Model& model_;
  const config::RunConfig& config_;
  bool splits_;
};

/// The mean over a crowd of a value that is 0 on the other ranks: if one rank is slower, all of
/// them are as slow in the end.
double mean_over(const mesh::Group& world, const Crowd& crowd, double value) {
  return world.sum(std::vector<double>{value}).front() / crowd.ranks;
}

Nanoseconds in_ns(double seconds) {
  return {std::max<std::int64_t>(1, std::llround(1e9 * seconds))};
}

/// Rounds of one mode: some are timed, in which ranks outside of the crowd use no layer; in one all
/// ranks count bytes.
struct ModeRounds {
  std::vector<Round> timed;
  Round counted;
};

/// The rounds of one mode for one kind of layer; each number is for one layer and microbatch.
struct LayerRounds {
  std::vector<double> forward, backward, both, weights, recompute;
  double kept = 0;
  double peak = 0;
};

LayerRounds rounds_of(const ModeRounds& rounds, const LayerKey& key) {
  LayerRounds of;
  for (const Round& round : rounds.timed) {
    const auto found = round.uses.find(key);
    if (found == round.uses.end()) continue;
    const LayerUse& use = found->second;
    const auto layers = static_cast<double>(std::max<std::int64_t>(1, use.layers));
    of.forward.push_back(use.forward / layers);
    of.backward.push_back(use.backward / layers);
    of.weights.push_back(use.weights / layers);
    of.recompute.push_back(use.recompute / layers);
    of.both.push_back((use.forward + use.backward + use.weights) / layers);
  }
  if (const auto found = rounds.counted.uses.find(key); found != rounds.counted.uses.end()) {
    const LayerUse& use = found->second;
    of.kept =
        static_cast<double>(use.kept) / static_cast<double>(std::max<std::int64_t>(1, use.layers));
    of.peak = static_cast<double>(use.peak);
  }
  return of;
}

/// How much longer than the mean of the ranks the slowest of them takes for a round.
double slowest_over_mean(const mesh::Group& world, const Crowd& crowd,
                         const std::vector<Round>& rounds) {
  std::vector<std::int64_t> times;
  for (const Round& round : rounds)
    times.push_back(std::llround(1e9 * (round.forward + round.backward)));
  const std::vector<std::int64_t> sums = world.sum(times);
  const std::vector<std::int64_t> largest = world.largest(std::move(times));
  std::vector<double> ratios;
  for (std::size_t i = 0; i < sums.size(); ++i)
    ratios.push_back(static_cast<double>(largest[i]) * crowd.ranks /
                     static_cast<double>(std::max<std::int64_t>(1, sums[i])));
  return spread_of(std::move(ratios)).median;
}

/// The mean over tokens of the length of their sample, which sets the work of attention.
double mean_length(const ProfileBatch& batch) {
  double squared = 0;
  double tokens = 0;
  for (const auto& members : batch.microbatches) {
    for (const data::EncodedSample* sample : members) {
      const auto length = static_cast<double>(sample->tokens.size());
      tokens += length;
      squared += length * length;
    }
  }
  return squared / tokens;
}

/// Bytes of the parameters of one layer of each kind; a tied head's count for the embedding.
std::map<LayerKey, Bytes> parameters_of(const model::Model& model) {
  std::map<LayerKey, Bytes> parameters;
  for (const auto& unit : model.units())
    parameters[key_of_unit(model.config(), *unit)] = {
        static_cast<std::int64_t>(unit->shard_value().nbytes())};
  return parameters;
}

/// The head is one layer, though a tied one has a norm and a product with boundaries of their own.
bool is_single(const LayerKey& key) { return key.layer == "head"; }

}  // namespace

ProfileBatch fill_microbatches(std::span<const data::EncodedSample> samples, Tokens capacity,
                               std::size_t most) {
  ProfileBatch batch{.capacity = capacity, .microbatches = {}};
  std::vector<bool> taken(samples.size());
  while (batch.microbatches.size() < most) {
    std::vector<const data::EncodedSample*> members;
    std::int64_t filled = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::int64_t tokens = std::ssize(samples[i].tokens);
      if (taken[i] || filled + tokens > capacity.count) continue;
      taken[i] = true;
      filled += tokens;
      members.push_back(&samples[i]);
    }
    if (2 * filled < capacity.count) break;  // the last one would be a point of another size
    batch.microbatches.push_back(std::move(members));
  }
  return batch;
}

namespace {

/// All rounds of a batch, in every mode, the crowds in turns.
class CrowdedRounds {
 public:
  CrowdedRounds(model::Model& model, const config::RunConfig& config, const ProfileBatch& batch,
                const mesh::Group& world, const PassOptions& options)
      : model_(model),
        config_(config),
        batch_(batch),
        world_(world),
        options_(options),
        clock_(model, bytes_, model.units().front()->shard_value().device()),
        marked_(model, config, clock_) {
    bytes_.count(false);
    for (const auto& samples : batch.microbatches) tokens_ += Tokens{tokens_of(samples)};
  }

  /// shape: [crowds]
  std::vector<ModeRounds> run(Mode mode, int rounds) {
    const ModeGuard guard(model_, mode, config_);
    const Crowd all{.ranks = world_.size()};
    std::vector<ModeRounds> of(options_.crowds.size());
    for (int i = 0; i < options_.warm_up; ++i) (void)run_once(all, mode);
    for (int i = 0; i < rounds; ++i)
      for (std::size_t crowd = 0; crowd < of.size(); ++crowd)
        of[crowd].timed.push_back(run_once(options_.crowds[crowd], mode));
    bytes_.count(true);
    (void)run_once(all, mode);  // frees uncounted what was there before
    const Round counted = run_once(all, mode);
    bytes_.count(false);
    for (ModeRounds& each : of) each.counted = counted;
    return of;
  }

 private:
  Round run_once(const Crowd& crowd, Mode mode) {
    const bool works = world_.index() < crowd.ranks;
    if (works && options_.before_round) options_.before_round(crowd, tokens_);
    clock_.count_cpu(crowd.shares_cores);
    for (const auto& unit : model_.units()) unit->clear_gradient();
    (void)world_.sum(std::vector<std::int64_t>{0});  // together
    Round round;
    if (!works) return round;
    for (const auto& samples : batch_.microbatches) marked_.run(samples, mode, round);
    return round;
  }

  model::Model& model_;
  const config::RunConfig& config_;
  const ProfileBatch& batch_;
  const mesh::Group& world_;
  const PassOptions& options_;
  LiveBytes bytes_;
  PassClock clock_;
  MarkedRun marked_;
  Tokens tokens_;
};

/// The rounds of one crowd, in every mode.
struct CrowdRounds {
  Crowd crowd;
  ModeRounds plain, put_off, recomputed;
};

/// collective: over `world`
config::ProfilePoint point_of(const mesh::Group& world, const CrowdRounds& rounds,
                              const LayerKey& key, double slowest) {
  const Round& counted = rounds.plain.counted;
  const double used = counted.times_used.at(key);
  const double scale = is_single(key) ? static_cast<double>(counted.uses.at(key).layers) / used : 1;
  const LayerRounds own = rounds_of(rounds.plain, key);
  const LayerRounds split = rounds_of(rounds.put_off, key);
  const LayerRounds again = rounds_of(rounds.recomputed, key);
  const auto mean = [&](double value) { return mean_over(world, rounds.crowd, value); };
  const auto median = [&](const std::vector<double>& values) {
    return slowest * mean(values.empty() ? 0 : scale * spread_of(values).median);
  };
  config::ProfilePoint point;
  point.tokens = {std::llround(counted.items.at(key) / used)};
  point.forward = in_ns(median(own.forward));
  // The two parts of a split backward are timed apart; their sum is that of one pass.
  const double backward = median(own.backward);
  const double late = median(split.weights);
  const double early = median(split.backward);
  const double share = late + early > 0 ? late / (late + early) : 0;
  if (backward > 0) {
    point.weight_gradient = {std::llround(1e9 * backward * share)};
    point.input_gradient = {std::llround(1e9 * backward) - point.weight_gradient.count};
  }
  const double first = median(again.forward);
  const double second = median(again.recompute);
  point.recompute = point.forward;
  if (first > 0 && second > 0) point.recompute = in_ns(median(own.forward) * second / first);
  point.activation = {std::max<std::int64_t>(0, std::llround(scale * own.kept))};
  point.activation_recomputed = {std::max<std::int64_t>(0, std::llround(scale * again.kept))};
  point.peak = {std::llround(own.peak)};
  point.spread = mean(own.both.empty() ? 0 : spread_of(own.both).spread);
  return point;
}

/// The microbatches as a whole. collective: over `world`
config::MeasuredPass whole_of(const mesh::Group& world, const CrowdRounds& rounds,
                              const ProfileBatch& batch, double slowest) {
  const auto microbatches = static_cast<double>(batch.microbatches.size());
  std::vector<double> forward, backward, both;
  for (const Round& round : rounds.plain.timed) {
    forward.push_back(round.forward / microbatches);
    backward.push_back(round.backward / microbatches);
    both.push_back((round.forward + round.backward) / microbatches);
  }
  const bool works = world.index() < rounds.crowd.ranks;
  const auto mean = [&](double value) { return mean_over(world, rounds.crowd, value); };
  return {.ranks = rounds.crowd.ranks,
          .capacity = batch.capacity,
          .forward = in_ns(slowest * mean(spread_of(forward).median)),
          .backward = in_ns(slowest * mean(spread_of(backward).median)),
          .spread = mean(works ? spread_of(both).spread : 0)};
}

}  // namespace

std::vector<PassMeasurement> measure_passes(model::Model& model, const config::RunConfig& config,
                                            const ProfileBatch& batch, const mesh::Group& world,
                                            const PassOptions& options) {
  TRIB_CHECK(!batch.microbatches.empty(), .what = "train: nothing to measure with");
  CrowdedRounds rounds(model, config, batch, world, options);
  const std::vector<ModeRounds> plain = rounds.run(Mode::kPlain, options.rounds);
  const int fewer = (options.rounds + 2) / 3;  // only for proportions
  const std::vector<ModeRounds> put_off = rounds.run(Mode::kWeightsPutOff, fewer);
  const std::vector<ModeRounds> recomputed = rounds.run(Mode::kRecomputed, fewer);
  std::vector<PassMeasurement> results;
  for (std::size_t i = 0; i < options.crowds.size(); ++i) {
    const CrowdRounds of{options.crowds[i], plain[i], put_off[i], recomputed[i]};
    const double slowest = slowest_over_mean(world, of.crowd, of.plain.timed);
    PassMeasurement result;
    for (const auto& [key, items] : of.plain.counted.items) {
      const config::ProfilePoint point = point_of(world, of, key, slowest);
      if (point.tokens.count > 0) result.points[key] = point;
    }
    result.whole = whole_of(world, of, batch, slowest);
    result.sequence_tokens = mean_length(batch);
    result.parameters = parameters_of(model);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace tributary::train
