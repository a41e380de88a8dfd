// Balancing time and quality. Goals on one core for 2,048 items over 256 buckets: 50 ms, 1.1 %
// above the bound where encoder and backbone have equal loads, 0.1 % where the encoder has half.
// Samples: 46 : 19 : 60 : 60 single photos, documents, groups of pictures and videos.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>

#include "core/random.h"
#include "schedule/balance/balance.h"

namespace tributary::schedule {
namespace {

struct Sample {
  double tiles;
  double tokens;
};

double uniform(RandomStream& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

Sample draw_sample(RandomStream& random) {
  const double text = std::exp(uniform(random, std::log(40.0), std::log(500.0)));
  const std::uint64_t kind = random.below(46 + 19 + 60 + 60);
  if (kind < 46) return {5, 729 + 2187 * uniform(random, 0.7, 1.33) + text};
  if (kind < 46 + 19) {
    const double grid = static_cast<double>(random.between(6, 25));
    const double kept = uniform(random, 0.75, 1);
    return {grid + 1, 729 + std::min(9.0, grid) * 729 * kept + text};
  }
  if (kind < 46 + 19 + 60) {
    const double drawn = -2.2 * std::log(1 - random.uniform());
    const double pictures = std::min(16.0, std::floor(2 + drawn));
    return {pictures, 730 * pictures + text};
  }
  const double frames = static_cast<double>(random.between(4, 31));
  return {frames, 210 * frames + text};
}

/// Encoder and backbone load of each sample in nanoseconds; `ratio` is that of their sums.
std::vector<std::int64_t> make_loads(std::int64_t items, double ratio, std::uint64_t seed) {
  RandomStream random(seed, "mixture");
  std::vector<Sample> samples;
  double tiles = 0;
  double backbone = 0;
  const auto backbone_of = [](const Sample& sample) {
    return sample.tokens * (1 + sample.tokens / 24576);
  };
  for (std::int64_t item = 0; item < items; ++item) {
    samples.push_back(draw_sample(random));
    tiles += samples.back().tiles;
    backbone += backbone_of(samples.back());
  }
  std::vector<std::int64_t> loads;
  const double mean = 1e6;
  for (const Sample& sample : samples) {
    loads.push_back(std::llround(mean * ratio * sample.tiles / tiles * double(items)));
    loads.push_back(std::llround(mean * backbone_of(sample) / backbone * double(items)));
  }
  return loads;
}

void share_over_buckets(benchmark::State& state) {
  const double ratio = double(state.range(2)) / 100;
  double worst_gap = 0;
  double sum_of_gaps = 0;
  constexpr int kSeeds = 20;
  std::int64_t evaluations = 0;
  std::vector<std::vector<std::int64_t>> loads;
  for (int seed = 0; seed < kSeeds; ++seed)
    loads.push_back(make_loads(state.range(0), ratio, seed));
  const auto problem = [&](std::size_t seed) {
    return BalanceProblem{
        .buckets = state.range(1), .dimensions = 2, .loads = loads[seed % kSeeds]};
  };
  std::size_t round = 0;
  for (auto _ : state) benchmark::DoNotOptimize(balance(problem(round++)));
  for (std::size_t seed = 0; seed < kSeeds; ++seed) {
    const Balance found = balance(problem(seed));
    worst_gap = std::max(worst_gap, found.gap());
    sum_of_gaps += found.gap();
    evaluations += found.evaluations;
  }
  state.counters["worst_gap_percent"] = 100 * worst_gap;
  state.counters["mean_gap_percent"] = 100 * sum_of_gaps / kSeeds;
  state.counters["evaluations"] = double(evaluations) / kSeeds;
}
BENCHMARK(share_over_buckets)
    ->ArgNames({"items", "buckets", "ratio_percent"})
    ->Args({256, 32, 100})
    ->Args({512, 32, 100})
    ->Args({2048, 512, 100})
    ->Args({2048, 256, 100})
    ->Args({2048, 128, 100})
    ->Args({2048, 512, 50})
    ->Args({2048, 256, 50})
    ->Args({2048, 128, 20})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary::schedule
