// Packing time and quality. Goals on one core: 256 sequences at 32,768 tokens in 0.1 ms, 16,384 in
// 3 ms. Lengths: log-normal with median 2,200 and sigma 0.55, as question answering over documents.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>

#include "core/random.h"
#include "schedule/dispatch_bins.h"
#include "schedule/pack.h"
#include "schedule/pack_vector.h"
#include "schedule/packing_bound.h"

namespace tributary::schedule {
namespace {

std::vector<Tokens> make_lengths(std::int64_t items, Tokens capacity) {
  RandomStream random(1, "lengths");
  std::vector<Tokens> lengths(static_cast<std::size_t>(items));
  for (Tokens& length : lengths) {
    const double drawn = 2200 * std::exp(0.55 * random.normal());
    length.count = std::clamp(static_cast<std::int64_t>(drawn), std::int64_t{64}, capacity.count);
  }
  return lengths;
}

void measure(benchmark::State& state, config::Packing rule) {
  const Tokens capacity = {state.range(1)};
  const std::vector<Tokens> lengths = make_lengths(state.range(0), capacity);
  for (auto _ : state) benchmark::DoNotOptimize(pack(rule, lengths, capacity));
  const PackedBins packed = pack(rule, lengths, capacity);
  state.counters["bins_over_bound"] =
      double(packed.bins()) / double(packing_bound(lengths, capacity));
  state.counters["fill"] = measure_fill(packed, lengths, capacity).share;
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void best_fit_decreasing(benchmark::State& state) {
  measure(state, config::Packing::kBestFitDecreasing);
}

void online_best_fit(benchmark::State& state) { measure(state, config::Packing::kOnlineBestFit); }

void bound(benchmark::State& state) {
  const Tokens capacity = {state.range(1)};
  const std::vector<Tokens> lengths = make_lengths(state.range(0), capacity);
  for (auto _ : state) benchmark::DoNotOptimize(packing_bound(lengths, capacity));
}

void choose_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"items", "capacity"})
      ->ArgsProduct({{256, 1024, 4096, 16384}, {8192, 32768}})
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(online_best_fit)->Apply(choose_sizes);
BENCHMARK(best_fit_decreasing)->Apply(choose_sizes);
BENCHMARK(bound)->Apply(choose_sizes);

/// Tokens, patches (four to a token, of half of the tokens on average) and attention work.
void vector_packing(benchmark::State& state) {
  const Tokens capacity = {32768};
  RandomStream random(2, "patches");
  std::vector<std::int64_t> needs;
  for (const Tokens length : make_lengths(state.range(0), capacity)) {
    needs.push_back(length.count);
    needs.push_back(random.between(0, 4 * length.count));
    needs.push_back(length.count * length.count);
  }
  const std::vector<std::int64_t> capacities = {capacity.count, 2 * capacity.count,
                                                capacity.count * capacity.count / 4};
  for (std::size_t i = 0; i < needs.size(); ++i) needs[i] = std::min(needs[i], capacities[i % 3]);
  const VectorItems items = {.needs = needs, .capacities = capacities};
  for (auto _ : state) benchmark::DoNotOptimize(pack_vector(items));
  state.counters["bins_over_bound"] =
      double(pack_vector(items).bins()) / double(vector_packing_bound(items));
}
BENCHMARK(vector_packing)->ArgName("items")->Arg(256)->Arg(4096)->Unit(benchmark::kMillisecond);

/// Largest sum of costs of any of 32 replicas, over the mean.
void dispatch(benchmark::State& state, Meeting meeting) {
  const std::vector<Tokens> lengths = make_lengths(state.range(0), {8192});
  const PackedBins packed = pack(config::Packing::kBestFitDecreasing, lengths, {8192});
  const std::vector<std::int64_t> costs =
      cost_of_bins(packed, lengths, {.per_token_pair = 1.0 / 4096});
  constexpr std::int64_t kReplicas = 32;
  for (auto _ : state) benchmark::DoNotOptimize(dispatch_bins(costs, kReplicas, meeting));
  std::vector<double> sums(kReplicas);
  double total = 0;
  const std::vector<std::int32_t> replica_of = dispatch_bins(costs, kReplicas, meeting);
  for (std::size_t bin = 0; bin < costs.size(); ++bin) {
    sums[replica_of[bin]] += double(costs[bin]);
    total += double(costs[bin]);
  }
  state.counters["largest_over_mean"] =
      *std::max_element(sums.begin(), sums.end()) * kReplicas / total;
}
void dispatch_by_sums(benchmark::State& state) { dispatch(state, Meeting::kStep); }
void dispatch_by_slots(benchmark::State& state) { dispatch(state, Meeting::kMicrobatch); }
BENCHMARK(dispatch_by_sums)->ArgName("items")->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(dispatch_by_slots)->ArgName("items")->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary::schedule
