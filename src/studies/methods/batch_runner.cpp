#include "studies/methods/batch_runner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "schedule/balance/balance.h"
#include "schedule/dispatch_bins.h"
#include "schedule/pack_online.h"

namespace tributary::studies {
namespace {

constexpr double kTokenParts = 1000;  // parts of a token, since means may be fractions

/// Loads of the backbone for balancing: tokens, since every token has the same marginal time.
std::vector<std::int64_t> tokens_of(const std::vector<SampleWork>& samples) {
  std::vector<std::int64_t> tokens;
  for (const SampleWork& sample : samples)
    tokens.push_back(std::llround(kTokenParts * sample.tokens));
  return tokens;
}

/// The bucket of each sample: replica r takes samples r, r + replicas, ... and cuts them into
/// rounds as evenly as possible.
std::vector<std::int32_t> deal_in_turn(std::size_t samples, const Buckets& buckets) {
  const auto mine = static_cast<std::int64_t>(samples) / buckets.replicas;
  std::vector<std::int32_t> bucket_of;
  for (std::int64_t sample = 0; sample < static_cast<std::int64_t>(samples); ++sample) {
    const std::int64_t position = std::min(sample / buckets.replicas, mine - 1);
    const std::int64_t round =
        std::min(position * buckets.rounds / std::max<std::int64_t>(mine, 1), buckets.rounds - 1);
    bucket_of.push_back(static_cast<std::int32_t>(buckets.at(sample % buckets.replicas, round)));
  }
  return bucket_of;
}

/// Dispatches the longest buckets to the replicas back and forth, round by round.
Buckets deal_there_and_back(Buckets buckets) {
  std::vector<std::int64_t> costs;
  for (const SampleWork& work : buckets.work)
    costs.push_back(std::llround(kTokenParts * work.tokens));
  const std::vector<std::int32_t> replica_of =
      schedule::dispatch_bins(costs, buckets.replicas, schedule::Meeting::kMicrobatch);
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t bucket) { return costs[bucket]; });
  Buckets dealt = buckets;
  std::vector<std::int64_t> rounds(static_cast<std::size_t>(buckets.replicas));
  for (const std::size_t bucket : order) {
    const std::int32_t replica = replica_of[bucket];
    const std::size_t to = buckets.at(replica, rounds[replica]++);
    dealt.samples[to] = std::move(buckets.samples[bucket]);
    dealt.work[to] = buckets.work[bucket];
  }
  return dealt;
}

/// A place that numbers go to; of equal sums the first place is the emptier one.
struct Place {
  double sum = 0;
  std::size_t index = 0;

  friend auto operator<=>(const Place&, const Place&) = default;
};

/// Restores a heap with the emptiest place on top after that place has grown.
void sift_down(std::vector<Place>& heap) {
  const Place moved = heap.front();
  std::size_t at = 0;
  for (std::size_t child = 1; child < heap.size(); child = 2 * at + 1) {
    if (child + 1 < heap.size() && heap[child + 1] < heap[child]) ++child;
    if (moved < heap[child]) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

}  // namespace

double Buckets::largest_sum(std::span<const double> of_buckets) const {
  std::vector<double> sums(static_cast<std::size_t>(replicas));
  for (std::size_t bucket = 0; bucket < of_buckets.size(); ++bucket)
    sums[bucket % sums.size()] += of_buckets[bucket];
  return *std::max_element(sums.begin(), sums.end());
}

double BatchRunner::module_seconds(const ModuleCosts& module, std::int64_t tp, double shape) const {
  if (shape <= 0) return 0;
  return module.sample_flops / module.sample_shape * shape /
         (costs_at(module, tp).throughput.at(shape) * static_cast<double>(tp));
}

std::vector<double> BatchRunner::encoder_seconds(std::int64_t tp, const Buckets& buckets) const {
  std::vector<double> seconds;
  for (const SampleWork& work : buckets.work) seconds.push_back(encoder_seconds(tp, work.tiles));
  return seconds;
}

std::vector<double> BatchRunner::backbone_seconds(std::int64_t tp, const Buckets& buckets) const {
  std::vector<double> seconds;
  for (const SampleWork& work : buckets.work) seconds.push_back(backbone_seconds(tp, work.tokens));
  return seconds;
}

const Buckets& BatchRunner::deal(std::size_t batch, std::int64_t replicas, std::int64_t rounds,
                                 Deal how, const Degrees& encoder, const Degrees& backbone) const {
  // In-order dispatch and tokens do not depend on degrees.
  std::array<std::int64_t, 6> degrees = {};
  if (how == Deal::kBalanced)
    degrees = {encoder.tp, encoder.pp, encoder.dp, backbone.tp, backbone.pp, backbone.dp};
  const DealKey key{batch, replicas, rounds, how, degrees};
  const auto found = dealt_.find(key);
  if (found != dealt_.end()) return found->second;
  constexpr std::size_t kMaxSamples = 1 << 20;  // in all cached buckets
  if (dealt_.size() * problem_.batches[batch].size() > kMaxSamples) {
    dealt_.clear();
    sorted_tiles_.clear();
    tiles_.clear();
  }
  return dealt_[key] = deal_anew(batch, replicas, rounds, how, encoder, backbone);
}

const std::vector<std::vector<double>>& BatchRunner::deal_tiles(std::size_t batch,
                                                                const Buckets& buckets,
                                                                std::int64_t replicas) const {
  const auto [found, is_new] = tiles_.try_emplace({&buckets, replicas});
  if (!is_new) return found->second;
  const auto [sorted, is_first] = sorted_tiles_.try_emplace(&buckets);
  if (is_first) sorted->second = sort_tiles(batch, buckets);
  for (const std::vector<double>& tiles : sorted->second)
    found->second.push_back(deal_longest_first(tiles, replicas));
  return found->second;
}

std::vector<std::vector<double>> BatchRunner::sort_tiles(std::size_t batch,
                                                         const Buckets& buckets) const {
  std::vector<std::vector<double>> rounds(static_cast<std::size_t>(buckets.rounds));
  for (std::size_t bucket = 0; bucket < buckets.samples.size(); ++bucket) {
    std::vector<double>& tiles = rounds[bucket / static_cast<std::size_t>(buckets.replicas)];
    for (const std::int32_t sample : buckets.samples[bucket])
      tiles.push_back(problem_.batches[batch][sample].tiles);
  }
  for (std::vector<double>& tiles : rounds) std::sort(tiles.begin(), tiles.end(), std::greater<>());
  return rounds;
}

Buckets BatchRunner::deal_anew(std::size_t batch, std::int64_t replicas, std::int64_t rounds,
                               Deal how, const Degrees& encoder, const Degrees& backbone) const {
  const bool has_capacity = problem_.capacity_tokens > 0;
  if (how == Deal::kInOrder && has_capacity) return pad(batch, replicas, pack_in_order(batch));
  if (how == Deal::kZigZag && has_capacity)
    return deal_there_and_back(pad(batch, replicas, pack_best_fit(batch)));
  const std::vector<SampleWork>& samples = problem_.batches[batch];
  const std::int64_t count = replicas * rounds;
  Buckets buckets = {.replicas = replicas, .rounds = rounds, .samples = {}, .work = {}};
  buckets.samples.resize(count);
  buckets.work.resize(count);
  const auto balance = [&](const std::vector<std::int64_t>& loads) {
    const int dimensions = static_cast<int>(loads.size() / samples.size());
    return schedule::balance({.buckets = count, .dimensions = dimensions, .loads = loads},
                             {.evaluations = 200'000})
        .bucket_of;
  };
  const std::vector<std::int32_t> bucket_of =
      how == Deal::kInOrder    ? deal_in_turn(samples.size(), buckets)
      : how == Deal::kBalanced ? balance(loads_of(samples, count, encoder, backbone))
                               : balance(tokens_of(samples));
  const std::size_t even = samples.size() / static_cast<std::size_t>(count) + 1;
  for (std::vector<std::int32_t>& bucket : buckets.samples) bucket.reserve(even);
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    buckets.samples[bucket_of[sample]].push_back(static_cast<std::int32_t>(sample));
    buckets.work[bucket_of[sample]].tiles += samples[sample].tiles;
    buckets.work[bucket_of[sample]].tokens += samples[sample].tokens;
  }
  return how == Deal::kZigZag ? deal_there_and_back(std::move(buckets)) : buckets;
}

std::vector<std::int64_t> BatchRunner::loads_of(const std::vector<SampleWork>& samples,
                                                std::int64_t buckets, const Degrees& encoder,
                                                const Degrees& backbone) const {
  // Marginal times at the mean bucket, so that loads add up.
  const double share = double(samples.size()) / double(buckets);
  const double tiles = problem_.costs.encoder.sample_shape * share;
  const double tokens = problem_.costs.backbone.sample_shape * share;
  const double of_tile = encoder_seconds(encoder.tp, tiles) / tiles / double(encoder.pp) *
                         double(backbone.dp) / double(encoder.dp);
  const double of_token = backbone_seconds(backbone.tp, tokens) / tokens / double(backbone.pp);
  std::vector<std::int64_t> loads;
  for (const SampleWork& sample : samples) {
    loads.push_back(std::llround(1e9 * of_tile * sample.tiles));
    loads.push_back(std::llround(1e9 * of_token * sample.tokens));
  }
  return loads;
}

BatchRunner::Packs BatchRunner::pack_in_order(std::size_t batch) const {
  const std::vector<SampleWork>& samples = problem_.batches[batch];
  Packs packs;
  double filled = 0;
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    if (packs.empty() || filled + samples[sample].packed() > problem_.capacity_tokens) {
      packs.emplace_back();
      filled = 0;
    }
    packs.back().push_back(static_cast<std::int32_t>(sample));
    filled += samples[sample].packed();
  }
  return packs;
}

BatchRunner::Packs BatchRunner::pack_best_fit(std::size_t batch) const {
  const Tokens capacity = {std::llround(problem_.capacity_tokens)};
  std::vector<Tokens> lengths;
  for (const SampleWork& work : problem_.batches[batch])
    lengths.push_back(
        std::clamp(Tokens{std::llround(std::ceil(work.packed()))}, Tokens{1}, capacity));
  const schedule::PackedBins bins = schedule::pack_online(lengths, capacity);
  Packs packs;
  for (std::int64_t bin = 0; bin < bins.bins(); ++bin)
    packs.emplace_back(bins.bin(bin).begin(), bins.bin(bin).end());
  return packs;
}

Buckets BatchRunner::pad(std::size_t batch, std::int64_t replicas, Packs packs) const {
  Buckets buckets = {.replicas = replicas, .rounds = 0, .samples = std::move(packs), .work = {}};
  for (const std::vector<std::int32_t>& pack : buckets.samples) {
    SampleWork sum;
    double filled = 0;
    for (const std::int32_t sample : pack) {
      const SampleWork& work = problem_.batches[batch][sample];
      sum.tiles += work.tiles;
      sum.tokens += work.tokens;
      filled += work.packed();
    }
    sum.tokens += std::max(0.0, problem_.capacity_tokens - filled);
    buckets.work.push_back(sum);
  }
  buckets.rounds = (std::ssize(buckets.samples) + replicas - 1) / replicas;
  buckets.samples.resize(static_cast<std::size_t>(buckets.rounds * replicas));
  buckets.work.resize(buckets.samples.size());  // empty, for replicas with a pack less
  return buckets;
}

double BatchRunner::encoder_phase(const std::vector<SampleWork>& samples, std::int64_t tp,
                                  std::int64_t replicas, Deal how) {
  std::vector<double> tiles;
  for (const SampleWork& sample : samples) tiles.push_back(sample.tiles);
  return encoder_phase(deal_out(std::move(tiles), replicas, how), tp);
}

double BatchRunner::encoder_phase(std::span<const double> tiles, std::int64_t tp) {
  double longest = 0;
  for (const double mine : tiles) {
    const double seconds = encoder_seconds(tp, mine);
    add_busy(seconds * static_cast<double>(tp));
    longest = std::max(longest, seconds);
  }
  return longest;
}

double BatchRunner::encoder_phase(std::size_t batch, const std::vector<std::int32_t>& samples,
                                  std::int64_t tp, std::int64_t replicas, Deal how) {
  std::vector<SampleWork> chosen;
  for (const std::int32_t sample : samples) chosen.push_back(problem_.batches[batch][sample]);
  return encoder_phase(chosen, tp, replicas, how);
}

double BatchRunner::run_pipelines(int stages, const Buckets& buckets, const StageDevices& devices,
                                  const StageCost& cost, double limit, double beside) {
  double slowest = 0;
  const auto rounds = static_cast<std::size_t>(buckets.rounds);
  for (std::int64_t replica = 0; replica < buckets.replicas && slowest < limit; ++replica) {
    std::vector<PassSeconds> times(static_cast<std::size_t>(stages) * rounds);
    double busy = 0;
    double mine = beside;
    for (int stage = 0; stage < stages; ++stage) {
      PassSeconds sum;
      for (std::int64_t round = 0; round < buckets.rounds; ++round)
        sum = sum + (times[stage * rounds + round] = cost(stage, replica, round));
      busy += (sum.forward + sum.backward) * static_cast<double>(devices(stage));
      mine += static_cast<double>(devices(stage));
    }
    passes_ += std::ssize(times);
    const double seconds = time_1f1b(stages, times);
    add_busy(busy);
    if (mine > 0) add({.bubbles = mine * seconds - busy});
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

double BatchRunner::backward_seconds(const ModuleCosts& module, const Degrees& degrees,
                                     std::int64_t rounds) const {
  const double shape =
      module.sample_shape * double(problem_.costs.global_samples) / double(rounds * degrees.dp);
  return (1 - module.forward_share) * module_seconds(module, degrees.tp, shape) /
         double(degrees.pp);
}

double BatchRunner::sync_seconds(const ModuleCosts& module, const Degrees& degrees,
                                 std::int64_t rounds) const {
  return std::max(0.0,
                  whole_sync_seconds(module, degrees) - backward_seconds(module, degrees, rounds));
}

double BatchRunner::whole_sync_seconds(const ModuleCosts& module, const Degrees& degrees) const {
  if (degrees.dp == 1) return 0;
  const double bytes = costs_at(module, degrees.tp).state_bytes * module.gradient_share /
                       static_cast<double>(degrees.pp);
  const auto replicas = static_cast<double>(degrees.dp);
  return 2 * (replicas - 1) / replicas * bytes / ring_rate(degrees.tp, degrees.dp);
}

double BatchRunner::ring_rate(std::int64_t tp, std::int64_t replicas) const {
  const std::int64_t in_node =
      std::clamp<std::int64_t>(problem_.devices_per_node / tp, 1, replicas);
  const double inside = problem_.node_bytes_per_second;
  if (in_node == replicas && inside > 0) return inside;
  const double outside = problem_.bytes_per_second * static_cast<double>(in_node);
  return in_node > 1 && inside > 0 ? std::min(inside, outside) : outside;
}

double BatchRunner::exchange_seconds(std::span<const double> tiles, std::int64_t devices) const {
  const double inside = problem_.node_bytes_per_second;
  const bool is_in_node = devices <= problem_.devices_per_node && inside > 0;
  return std::accumulate(tiles.begin(), tiles.end(), 0.0) * problem_.feature_bytes /
         ((is_in_node ? inside : problem_.bytes_per_second) * static_cast<double>(devices));
}

std::vector<double> deal_out(std::vector<double> numbers, std::int64_t places, Deal how) {
  if (how == Deal::kBalanced) {
    std::sort(numbers.begin(), numbers.end(), std::greater<>());
    return deal_longest_first(numbers, places);
  }
  std::vector<double> sums(static_cast<std::size_t>(places));
  for (std::size_t i = 0; i < numbers.size(); ++i) sums[i % sums.size()] += numbers[i];
  return sums;
}

std::vector<double> deal_longest_first(std::span<const double> numbers, std::int64_t places) {
  // The first numbers get a place each, so the last of them makes the emptiest place.
  const std::size_t first = std::min(numbers.size(), static_cast<std::size_t>(places));
  std::vector<double> sums(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(first));
  if (first == numbers.size()) return sums;
  std::vector<Place> heap;
  for (std::size_t place = first; place-- > 0;) heap.push_back({sums[place], place});
  std::sort(heap.begin(), heap.end());
  for (std::size_t i = first; i < numbers.size(); ++i) {
    heap.front().sum += numbers[i];
    sift_down(heap);
  }
  for (const Place& place : heap) sums[place.index] = place.sum;
  return sums;
}

std::int64_t layers_of_stage(std::int64_t layers, std::int64_t stages, std::int64_t stage) {
  return layers / stages + (stage < layers % stages ? 1 : 0);
}

}  // namespace tributary::studies
