#include "train/profile/measure_passes.h"

#include <algorithm>
#include <cmath>

#include "config/family/known_modules.h"
#include "core/error.h"

namespace tributary::train {
namespace {

Nanoseconds in_ns(double seconds) {
  return {std::max<std::int64_t>(1, std::llround(1e9 * seconds))};
}

/// The rounds of one mode: some are timed, in one all ranks count bytes.
struct ModeRounds {
  std::vector<Round> timed;
  Round counted;
};

/// The rounds of one mode for one kind of layer; each number is for one layer and microbatch.
struct LayerRounds {
  std::vector<double> forward, backward, both, weights, recompute;
  std::vector<double> attention_forward, attention_backward;
};

LayerRounds rounds_of(const std::vector<Round>& rounds, const LayerKey& key) {
  LayerRounds of;
  for (const Round& round : rounds) {
    const auto found = round.uses.find(key);
    if (found == round.uses.end()) continue;
    const LayerUse& use = found->second;
    const auto layers = static_cast<double>(std::max<std::int64_t>(1, use.layers));
    of.forward.push_back(use.forward / layers);
    of.backward.push_back(use.backward / layers);
    of.weights.push_back(use.weights / layers);
    of.recompute.push_back(use.recompute / layers);
    of.both.push_back((use.forward + use.backward + use.weights) / layers);
    of.attention_forward.push_back(use.attention_forward / layers);
    of.attention_backward.push_back(use.attention_backward / layers);
  }
  return of;
}

/// Bytes that one layer of a kind keeps for backward.
double kept_of(const Round& counted, const LayerKey& key) {
  const auto found = counted.uses.find(key);
  if (found == counted.uses.end()) return 0;
  const LayerUse& use = found->second;
  return static_cast<double>(use.kept) / static_cast<double>(std::max<std::int64_t>(1, use.layers));
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

/// How many layers of a kind each microbatch has, where the model's graph does not list a layer for
/// each unit: the head is one, though a tied one has a norm and a product with boundaries of their
/// own; what stands in front of an encoder's blocks takes what stands behind them too. 0: one for
/// each unit.
std::int64_t layers_of_graph(const LayerKey& key, const config::ModelConfig& config) {
  if (key.layer == "head") return 1;
  if (key.layer != "patch_embedding") return 0;
  return config::find_module(config::front_modules(config), key.module)->item.first_layers;
}

/// Bytes of the parameters of one layer of each kind; a tied head's count for the embedding.
std::map<LayerKey, LayerBytes> parameters_of(const model::Model& model) {
  std::map<LayerKey, LayerBytes> parameters;
  std::map<LayerKey, std::int64_t> units;
  for (const auto& unit : model.units()) {
    const LayerKey key = key_of_unit(model.config(), *unit);
    const Bytes bytes{static_cast<std::int64_t>(unit->shard_value().nbytes())};
    parameters[key].all += bytes;
    if (unit->is_adapter())
      parameters[key].adapters += bytes;
    else
      ++units[key];
  }
  for (auto& [key, bytes] : parameters) {
    const std::int64_t of_graph = layers_of_graph(key, model.config());
    const std::int64_t layers = of_graph > 0 ? of_graph : units.at(key);
    bytes.all.count /= layers;
    bytes.adapters.count /= layers;
  }
  return parameters;
}

/// Whether the backward of a layer ends in its weights: raw rows have no gradient.
bool takes_raw_rows(const LayerKey& key) { return key.layer == "patch_embedding"; }

bool has_attention(const LayerKey& key) {
  return key.layer == "block" || key.layer == "window_block";
}

/// The rounds of one crowd, in every mode.
struct CrowdRounds {
  Crowd crowd;
  ModeRounds plain, apart, recomputed;
};

/// A median over the rounds, the mean over the ranks of a crowd, scaled to the slowest of them.
struct CrowdTime {
  const mesh::Group& world;
  const Crowd& crowd;
  double slowest = 1;

  /// collective: over `world`
  [[nodiscard]] double operator()(const std::vector<double>& values) const {
    return slowest * mean_over(world, crowd, values.empty() ? 0 : spread_of(values).median);
  }
};

/// A layer's attention, and the layer without it.
struct LayerPoint {
  config::ProfilePoint rest;
  config::MeasuredAttention attention;
};

/// What a batch has for a kind of layer.
LayerWork sum_work(const ProfileBatch& batch, const LayerKey& key,
                   const config::ModelConfig& config) {
  LayerWork sum;
  for (const auto& samples : batch.microbatches) {
    const LayerWork own = work_of(samples, key, config);
    sum.microbatches += own.microbatches;
    sum.items += own.items;
    sum.pairs += own.pairs;
  }
  return sum;
}

/// The size of the attention in a round. units: attention with no less than itself
config::MeasuredAttention size_of(const LayerWork& work) {
  config::MeasuredAttention size;
  size.tokens = {std::llround(work.items / work.microbatches)};
  size.attended = std::max(1.0, work.pairs / std::max(1.0, work.items));
  return size;
}

/// collective: over `world`
LayerPoint point_of(const CrowdTime& median, const CrowdRounds& rounds, const LayerKey& key,
                    std::int64_t layers) {
  const Round& counted = rounds.plain.counted;
  const LayerWork& work = counted.work.at(key);
  const double scale = layers > 0 ? static_cast<double>(counted.uses.at(key).layers) /
                                        (work.microbatches * static_cast<double>(layers))
                                  : 1;
  const LayerRounds own = rounds_of(rounds.plain.timed, key);
  const LayerRounds apart = rounds_of(rounds.apart.timed, key);
  const LayerRounds again = rounds_of(rounds.recomputed.timed, key);
  const auto ratio = [&](const std::vector<double>& part, const std::vector<double>& of) {
    const double whole = median(of);
    const double of_whole = median(part);
    return whole > 0 ? of_whole / whole : 0;
  };
  const double forward = scale * median(own.forward);
  const double attention = forward * std::min(1.0, ratio(apart.attention_forward, apart.forward));
  // The two parts of a split backward are timed apart; their sum is that of one pass.
  const double backward = scale * median(own.backward);
  const double late = median(apart.weights);
  const double early = median(apart.backward);
  const double part = takes_raw_rows(key) ? 1 : late + early > 0 ? late / (late + early) : 0;
  const double weights = backward * part;
  const double gradient =
      (backward - weights) * std::min(1.0, ratio(apart.attention_backward, apart.backward));
  const double repeats = ratio(again.recompute, again.forward);
  LayerPoint point{.rest = {}, .attention = size_of(work)};
  point.rest.tokens = point.attention.tokens;
  point.rest.forward = in_ns(forward - attention);
  if (backward > 0) {
    point.rest.weight_gradient = {std::llround(1e9 * weights)};
    point.rest.input_gradient = {std::llround(1e9 * (backward - weights - gradient))};
  }
  point.rest.recompute = point.rest.forward;
  if (repeats > 0) point.rest.recompute = in_ns(forward * repeats - attention);
  point.rest.activation = {std::max<std::int64_t>(0, std::llround(scale * kept_of(counted, key)))};
  point.rest.activation_recomputed = {
      std::max<std::int64_t>(0, std::llround(scale * kept_of(rounds.recomputed.counted, key)))};
  point.rest.peak = {counted.uses.at(key).peak};
  point.rest.spread =
      mean_over(median.world, rounds.crowd, own.both.empty() ? 0 : spread_of(own.both).spread);
  point.attention.forward = in_ns(attention);
  point.attention.gradient = {std::llround(1e9 * gradient)};
  point.attention.spread = point.rest.spread;
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
  CrowdedRounds rounds(model, config, batch, world, options);
  const int fewer = (options.rounds + 2) / 3;  // only for proportions
  const auto plain = rounds.time(Mode::kPlain, options.rounds);
  const Round plain_bytes = rounds.count_bytes(Mode::kPlain);
  const auto apart = rounds.time(Mode::kApart, fewer);
  const auto recomputed = rounds.time(Mode::kRecomputed, fewer);
  const Round recomputed_bytes = rounds.count_bytes(Mode::kRecomputed);
  std::vector<PassMeasurement> results;
  for (std::size_t i = 0; i < options.crowds.size(); ++i) {
    const CrowdRounds of{.crowd = options.crowds[i],
                         .plain = {plain[i], plain_bytes},
                         .apart = {apart[i], {}},
                         .recomputed = {recomputed[i], recomputed_bytes}};
    const CrowdTime median{world, of.crowd, slowest_over_mean(world, of.crowd, plain[i])};
    PassMeasurement result;
    for (const auto& [key, work] : plain_bytes.work) {
      if (work.items <= 0) continue;
      const LayerPoint point = point_of(median, of, key, layers_of_graph(key, model.config()));
      result.points[key] = point.rest;
      if (has_attention(key)) result.attention[key] = point.attention;
    }
    result.whole = whole_of(world, of, batch, median.slowest);
    result.sequence_tokens = mean_length(batch);
    result.parameters = parameters_of(model);
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<std::map<LayerKey, config::MeasuredAttention>> measure_attention(
    model::Model& model, const config::RunConfig& config, const ProfileBatch& batch,
    const mesh::Group& world, const PassOptions& options) {
  CrowdedRounds rounds(model, config, batch, world, options);
  const auto apart = rounds.time(Mode::kApart, options.rounds);
  std::vector<std::map<LayerKey, config::MeasuredAttention>> results(options.crowds.size());
  for (std::size_t i = 0; i < options.crowds.size(); ++i) {
    const Crowd& crowd = options.crowds[i];
    const CrowdTime median{world, crowd, slowest_over_mean(world, crowd, apart[i])};
    for (const auto& unit : model.units()) {
      const LayerKey key = key_of_unit(model.config(), *unit);
      const LayerWork work = sum_work(batch, key, model.config());
      if (!has_attention(key) || results[i].contains(key) || work.items <= 0) continue;
      const LayerRounds own = rounds_of(apart[i], key);
      config::MeasuredAttention point = size_of(work);
      point.forward = in_ns(median(own.attention_forward));
      point.gradient = {std::llround(1e9 * median(own.attention_backward))};
      point.spread =
          mean_over(world, crowd,
                    own.attention_forward.empty() ? 0 : spread_of(own.attention_forward).spread);
      results[i][key] = point;
    }
  }
  return results;
}

}  // namespace tributary::train
