#include "schedule/dispatch_bins.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "core/error.h"

namespace tributary::schedule {
namespace {

void check_replicas(std::int64_t replicas) {
  TRIB_REQUIRE(replicas >= 1 && replicas <= kMaxReplicas,
               .what = "schedule: number of replicas out of range", .found = str(replicas),
               .expected = str("1 to ", kMaxReplicas));
}

std::vector<std::int32_t> sort_by_cost(std::span<const std::int64_t> costs) {
  std::vector<std::int32_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return costs[a] > costs[b]; });
  return order;
}

std::vector<std::int32_t> deal_to_least_cost(std::span<const std::int64_t> costs,
                                             std::int64_t replicas) {
  const std::int64_t bins = std::ssize(costs);
  std::int64_t one_more = bins % replicas;  // replicas with one bin more than the others
  using Load = std::pair<std::int64_t, std::int32_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> min;
  for (std::int32_t replica = 0; replica < replicas; ++replica) min.emplace(0, replica);
  std::vector<std::int64_t> count(static_cast<std::size_t>(replicas));
  std::vector<std::int32_t> replica_of(costs.size());
  for (const std::int32_t bin : sort_by_cost(costs)) {
    while (count[min.top().second] == bins / replicas && one_more == 0) min.pop();
    const auto [load, replica] = min.top();
    min.pop();
    replica_of[bin] = replica;
    if (++count[replica] > bins / replicas) {
      --one_more;
    } else {
      min.emplace(load + costs[bin], replica);
    }
  }
  return replica_of;
}

std::vector<std::int32_t> deal_there_and_back(std::span<const std::int64_t> costs,
                                              std::int64_t replicas) {
  std::vector<std::int32_t> replica_of(costs.size());
  std::int64_t place = 0;
  for (const std::int32_t bin : sort_by_cost(costs)) {
    const std::int64_t slot = place / replicas;
    const std::int64_t from_start = place % replicas;
    replica_of[bin] =
        static_cast<std::int32_t>(slot % 2 == 0 ? from_start : replicas - 1 - from_start);
    ++place;
  }
  return replica_of;
}

using Bin = std::vector<std::int32_t>;

double exact_cost(std::span<const std::int32_t> bin, std::span<const Tokens> lengths,
                  const SequenceCost& cost) {
  double tokens = 0;
  double pairs = 0;
  for (const std::int32_t item : bin) {
    const auto length = static_cast<double>(lengths[item].count);
    tokens += length;
    pairs += length * length;
  }
  return cost.per_token * tokens + cost.per_token_pair * pairs + cost.fixed;
}

/// Splits a bin; both halves keep the order of the samples.
std::pair<Bin, Bin> split(const Bin& bin, std::span<const Tokens> lengths,
                          const SequenceCost& cost) {
  Bin order = bin;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return lengths[a] > lengths[b]; });
  double first = 0;
  double second = 0;
  std::vector<std::int32_t> moved;
  for (const std::int32_t item : order) {
    double& lighter = second < first ? second : first;
    if (&lighter == &second) moved.push_back(item);
    lighter += exact_cost(std::span(&item, 1), lengths, cost);
  }
  std::pair<Bin, Bin> halves;
  for (const std::int32_t item : bin) {
    const bool is_moved = std::find(moved.begin(), moved.end(), item) != moved.end();
    (is_moved ? halves.second : halves.first).push_back(item);
  }
  return halves;
}

}  // namespace

std::vector<std::int64_t> cost_of_bins(const PackedBins& packed, std::span<const Tokens> lengths,
                                       const SequenceCost& cost) {
  for (const double coefficient : {cost.per_token, cost.per_token_pair, cost.fixed}) {
    TRIB_REQUIRE(coefficient >= 0 && std::isfinite(coefficient),
                 .what = "schedule: cost coefficient out of range", .found = str(coefficient),
                 .expected = "0 or above, and finite");
  }
  std::vector<std::int64_t> costs;
  for (std::int64_t bin = 0; bin < packed.bins(); ++bin) {
    const double exact = exact_cost(packed.bin(bin), lengths, cost);
    TRIB_REQUIRE(exact < kMaxBinCost, .what = "schedule: cost of a bin out of range",
                 .where = str("bin ", bin), .found = str(exact),
                 .expected = str("below ", kMaxBinCost));
    costs.push_back(std::llround(exact));
  }
  return costs;
}

std::vector<std::int32_t> dispatch_bins(std::span<const std::int64_t> costs, std::int64_t replicas,
                                        Meeting meeting) {
  check_replicas(replicas);
  for (std::size_t bin = 0; bin < costs.size(); ++bin) {
    TRIB_REQUIRE(costs[bin] >= 0, .what = "schedule: cost of a bin below 0",
                 .where = str("bin ", bin), .found = str(costs[bin]));
  }
  return meeting == Meeting::kStep ? deal_to_least_cost(costs, replicas)
                                   : deal_there_and_back(costs, replicas);
}

PackedBins split_to_multiple(const PackedBins& packed, std::span<const Tokens> lengths,
                             const SequenceCost& cost, std::int64_t replicas) {
  check_replicas(replicas);
  std::vector<std::int64_t> costs = cost_of_bins(packed, lengths, cost);
  std::vector<Bin> bins;
  for (std::int64_t bin = 0; bin < packed.bins(); ++bin) {
    bins.emplace_back(packed.bin(bin).begin(), packed.bin(bin).end());
  }
  while (std::ssize(bins) % replicas != 0) {
    std::int64_t costliest = -1;
    for (std::int64_t bin = 0; bin < std::ssize(bins); ++bin) {
      if (bins[bin].size() < 2) continue;
      if (costliest < 0 || costs[bin] > costs[costliest]) costliest = bin;
    }
    if (costliest < 0) break;
    auto [first, second] = split(bins[costliest], lengths, cost);
    costs[costliest] = std::llround(exact_cost(first, lengths, cost));
    costs.push_back(std::llround(exact_cost(second, lengths, cost)));
    bins[costliest] = std::move(first);
    bins.push_back(std::move(second));
  }
  PackedBins result = {.first = {0}, .items = {}};
  for (const Bin& bin : bins) {
    result.items.insert(result.items.end(), bin.begin(), bin.end());
    result.first.push_back(static_cast<std::int32_t>(result.items.size()));
  }
  return result;
}

}  // namespace tributary::schedule
