#include "plan/baseline/batch_runner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

#include "schedule/balance/balance.h"

namespace tributary::plan {
namespace {

/// Loads of the backbone, which grow with the tokens: as each has the same marginal time, they
/// count.
std::vector<std::int64_t> tokens_of(const std::vector<SampleWork>& samples) {
  constexpr double kParts = 1000;  // of a token, as means may be fractions
  std::vector<std::int64_t> tokens;
  for (const SampleWork& sample : samples) tokens.push_back(std::llround(kParts * sample.tokens));
  return tokens;
}

}  // namespace

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
  // In order and by tokens, degrees say nothing.
  std::array<std::int64_t, 6> degrees = {};
  if (how == Deal::kBalanced)
    degrees = {encoder.tp, encoder.pp, encoder.dp, backbone.tp, backbone.pp, backbone.dp};
  const DealKey key{batch, replicas, rounds, how, degrees};
  const auto found = dealt_.find(key);
  if (found != dealt_.end()) return found->second;
  return dealt_[key] = deal_anew(batch, replicas, rounds, how, encoder, backbone);
}

Buckets BatchRunner::deal_anew(std::size_t batch, std::int64_t replicas, std::int64_t rounds,
                               Deal how, const Degrees& encoder, const Degrees& backbone) const {
  if (how == Deal::kInOrder && problem_.capacity_tokens > 0) return pack_in_order(batch, replicas);
  const std::vector<SampleWork>& samples = problem_.batches[batch];
  const std::int64_t count = replicas * rounds;
  Buckets buckets = {.replicas = replicas, .rounds = rounds, .samples = {}, .work = {}};
  buckets.samples.resize(count);
  buckets.work.resize(count);
  std::vector<std::int32_t> bucket_of(samples.size());
  if (how == Deal::kInOrder) {
    // Replica r takes samples r, r + replicas, ...; its rounds cut them as evenly as can be.
    const auto mine = static_cast<std::int64_t>(samples.size()) / replicas;
    for (std::size_t sample = 0; sample < samples.size(); ++sample) {
      const std::int64_t position =
          std::min(static_cast<std::int64_t>(sample) / replicas, mine - 1);
      const std::int64_t replica = static_cast<std::int64_t>(sample) % replicas;
      const std::int64_t round =
          std::min(position * rounds / std::max<std::int64_t>(mine, 1), rounds - 1);
      bucket_of[sample] = static_cast<std::int32_t>(buckets.at(replica, round));
    }
  } else {
    const std::vector<std::int64_t> loads =
        how == Deal::kByTokens ? tokens_of(samples) : loads_of(samples, count, encoder, backbone);
    const int dimensions = static_cast<int>(loads.size() / samples.size());
    bucket_of = schedule::balance({.buckets = count, .dimensions = dimensions, .loads = loads},
                                  {.evaluations = 200'000})
                    .bucket_of;
  }
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    buckets.samples[bucket_of[sample]].push_back(static_cast<std::int32_t>(sample));
    buckets.work[bucket_of[sample]].tiles += samples[sample].tiles;
    buckets.work[bucket_of[sample]].tokens += samples[sample].tokens;
  }
  return buckets;
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

Buckets BatchRunner::pack_in_order(std::size_t batch, std::int64_t replicas) const {
  Buckets buckets = {.replicas = replicas, .rounds = 0, .samples = {}, .work = {}};
  const std::vector<SampleWork>& samples = problem_.batches[batch];
  double filled = 0;
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    const SampleWork& work = samples[sample];
    if (buckets.samples.empty() || filled + work.tokens > problem_.capacity_tokens) {
      buckets.samples.emplace_back();
      buckets.work.push_back({0, std::max(problem_.capacity_tokens, work.tokens)});
      filled = 0;
    }
    buckets.samples.back().push_back(static_cast<std::int32_t>(sample));
    buckets.work.back().tiles += work.tiles;
    filled += work.tokens;
  }
  buckets.rounds = (std::ssize(buckets.samples) + replicas - 1) / replicas;
  buckets.samples.resize(static_cast<std::size_t>(buckets.rounds * replicas));
  buckets.work.resize(buckets.samples.size());  // of replicas that have a pack less: nothing
  return buckets;
}

double BatchRunner::encoder_phase(const std::vector<SampleWork>& samples, std::int64_t tp,
                                  std::int64_t replicas, Deal how) {
  std::vector<double> order;
  for (const SampleWork& sample : samples) order.push_back(sample.tiles);
  double longest = 0;
  for (const double mine : deal_out(std::move(order), replicas, how)) {
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
                                  const StageCost& cost, double limit) {
  double slowest = 0;
  const auto rounds = static_cast<std::size_t>(buckets.rounds);
  for (std::int64_t replica = 0; replica < buckets.replicas && slowest < limit; ++replica) {
    std::vector<StageTimes> times(static_cast<std::size_t>(stages) * rounds);
    for (int stage = 0; stage < stages; ++stage) {
      StageTimes sum;
      for (std::int64_t round = 0; round < buckets.rounds; ++round)
        sum = sum + (times[stage * rounds + round] = cost(stage, replica, round));
      add_busy((sum.forward + sum.backward) * static_cast<double>(devices(stage)));
    }
    ++evaluations_;
    slowest = std::max(slowest, time_1f1b(stages, times));
  }
  return slowest;
}

double BatchRunner::sync_seconds(const ModuleCosts& module, const Degrees& degrees,
                                 std::int64_t rounds) const {
  const double shape =
      module.sample_shape * double(problem_.costs.global_samples) / double(rounds * degrees.dp);
  const double backward =
      (1 - module.forward_share) * module_seconds(module, degrees.tp, shape) / double(degrees.pp);
  return std::max(0.0, whole_sync_seconds(module, degrees) - backward);
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

std::vector<double> deal_out(std::vector<double> numbers, std::int64_t places, Deal how) {
  std::vector<double> sums(static_cast<std::size_t>(places));
  if (how == Deal::kInOrder) {
    for (std::size_t i = 0; i < numbers.size(); ++i) sums[i % sums.size()] += numbers[i];
    return sums;
  }
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  using Place = std::pair<double, std::size_t>;  // the emptiest on top, of equals the first
  std::priority_queue<Place, std::vector<Place>, std::greater<>> emptiest;
  for (std::size_t place = 0; place < sums.size(); ++place) emptiest.emplace(0, place);
  for (const double number : numbers) {
    const std::size_t place = emptiest.top().second;
    emptiest.pop();
    emptiest.emplace(sums[place] += number, place);
  }
  return sums;
}

std::int64_t layers_of_stage(std::int64_t layers, std::int64_t stages, std::int64_t stage) {
  return layers / stages + (stage < layers % stages ? 1 : 0);
}

}  // namespace tributary::plan
