#include "train/profile/crowded_rounds.h"

#include <algorithm>
#include <cmath>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "parallel/unit_chain.h"
#include "train/executor/executor.h"
#include "train/executor/token_loss.h"

namespace tributary::train {
namespace {

using schedule::Action;
using schedule::Op;

std::int64_t tokens_of(std::span<const data::EncodedSample* const> samples) {
  std::int64_t tokens = 0;
  for (const data::EncodedSample* sample : samples) tokens += std::ssize(sample->tokens);
  return tokens;
}

config::ModuleChain chain_of(const config::ModelConfig& config, const std::string& module) {
  for (config::ModuleChain& chain : config::chains_of(config))
    if (config::find_module(chain.modules, module) != nullptr) return std::move(chain);
  TRIB_RAISE(Fault::kBug, .what = "train: layer of a module that the model lacks", .found = module);
}

/// Runs one microbatch by the executor, and takes the marks of its layers.
class MarkedRun {
 public:
  MarkedRun(model::Model& model, const config::RunConfig& config, PassClock& clock)
      : model_(model), config_(config), clock_(clock) {}

  void run(std::span<const data::EncodedSample* const> samples, Mode mode, Round& round) {
    std::vector<Action> actions{{.op = Op::kForward}};
    if (mode == Mode::kApart) {
      actions.push_back({.op = Op::kBackwardInput});
      actions.push_back({.op = Op::kBackwardWeight});
    } else {
      actions.push_back({.op = Op::kBackward});
    }
    if (!trains()) actions.resize(1);
    stretches_.clear();
    std::size_t action = 0;
    TokenLoss loss(model_, /*targets=*/1);
    const ExecutorOptions options{
        .loss = [&](int, const Microbatch& microbatch,
                    const at::Tensor& hidden) { return loss(microbatch, hidden); },
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
    for (const auto& [key, use] : cut_forward(stretches_.front())) {
      const LayerWork own = work_of(samples, key, model_.config());
      LayerWork& work = round.work[key];
      work.microbatches += own.microbatches;
      work.items += own.items;
      work.pairs += own.pairs;
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
    std::vector<config::ModuleRecompute> all;
    for (const std::string& module : config::known_module_names()) all.push_back({module});
    model.set_recompute(mode == Mode::kRecomputed ? all : std::vector<config::ModuleRecompute>{});
    model.layout().chain->split_backward(mode == Mode::kApart);
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

}  // namespace

ProfileBatch fill_microbatches(std::span<const data::EncodedSample> samples, Tokens capacity,
                               std::size_t max) {
  ProfileBatch batch{.capacity = capacity, .microbatches = {}};
  std::vector<bool> taken(samples.size());
  while (batch.microbatches.size() < max) {
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

LayerWork work_of(std::span<const data::EncodedSample* const> samples, const LayerKey& key,
                  const config::ModelConfig& config) {
  LayerWork work{.microbatches = 1};
  if (key.module == config::kBackboneModule) {
    for (const data::EncodedSample* sample : samples) {
      const auto length = static_cast<double>(sample->tokens.size());
      work.items += length;
      work.pairs += length * length;
    }
    return work;
  }
  const config::ModuleChain chain = chain_of(config, key.module);
  const std::vector<Modality>& takes = chain.modules.front().takes;
  const config::ItemForm& form = chain.modules.front().item;
  for (const data::EncodedSample* sample : samples) {
    for (const data::PatchedItem& item : sample->items) {
      if (std::ranges::count(takes, item.modality) == 0) continue;
      const Grid grid = form.inside(config, item.grid);
      const auto rows = static_cast<double>(grid.patches());
      work.items += rows;
      work.pairs += rows * rows / static_cast<double>(grid.time);
    }
  }
  if (key.layer == "window_block")
    work.pairs = std::min(work.pairs, work.items * static_cast<double>(form.window));
  return work;
}

CrowdedRounds::CrowdedRounds(model::Model& model, const config::RunConfig& config,
                             const ProfileBatch& batch, const mesh::Group& world,
                             const PassOptions& options)
    : model_(model),
      config_(config),
      batch_(batch),
      world_(world),
      options_(options),
      clock_(model, bytes_, model.units().front()->shard_value().device()) {
  TRIB_CHECK(!batch.microbatches.empty(), .what = "train: nothing to measure with");
  bytes_.count(false);
  for (const auto& samples : batch.microbatches) tokens_ += Tokens{tokens_of(samples)};
}

std::vector<std::vector<Round>> CrowdedRounds::time(Mode mode, int rounds) {
  const ModeGuard guard(model_, mode, config_);
  clock_.time_attention(mode == Mode::kApart);
  std::vector<std::vector<Round>> of(options_.crowds.size());
  for (int i = 0; i < options_.warm_up; ++i) (void)run_once({.ranks = world_.size()}, mode);
  for (int i = 0; i < rounds; ++i)
    for (std::size_t crowd = 0; crowd < of.size(); ++crowd)
      of[crowd].push_back(run_once(options_.crowds[crowd], mode));
  return of;
}

Round CrowdedRounds::count_bytes(Mode mode) {
  const ModeGuard guard(model_, mode, config_);
  clock_.time_attention(false);
  bytes_.count(true);
  (void)run_once({.ranks = world_.size()}, mode);  // frees uncounted what was there before
  Round counted = run_once({.ranks = world_.size()}, mode);
  bytes_.count(false);
  return counted;
}

Round CrowdedRounds::run_once(const Crowd& crowd, Mode mode) {
  const bool works = world_.index() < crowd.ranks;
  if (works && options_.before_round) options_.before_round(crowd, tokens_);
  clock_.count_cpu(crowd.shares_cores);
  for (const auto& unit : model_.units()) unit->clear_gradient();
  (void)world_.sum(std::vector<std::int64_t>{0});  // together
  Round round;
  if (!works) return round;
  MarkedRun run(model_, config_, clock_);
  for (const auto& samples : batch_.microbatches) run.run(samples, mode, round);
  return round;
}

double mean_over(const mesh::Group& world, const Crowd& crowd, double value) {
  return world.sum(std::vector<double>{value}).front() / crowd.ranks;
}

double slowest_over_mean(const mesh::Group& world, const Crowd& crowd,
                         std::span<const Round> rounds) {
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

}  // namespace tributary::train
