#include "studies/methods/round_orders.h"

#include <algorithm>
#include <numeric>

#include "core/random.h"

namespace tributary::studies {
namespace {

template <class Before>
RoundOrder sorted_by(std::size_t rounds, Before before) {
  RoundOrder order = natural_order(static_cast<std::int64_t>(rounds));
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

/// Rounds with less encoder than backbone work come first, ascending; the rest descend by backbone.
RoundOrder johnson(std::span<const double> encoder, std::span<const double> backbone) {
  return sorted_by(encoder.size(), [&](std::int64_t a, std::int64_t b) {
    const bool early_a = encoder[a] < backbone[a];
    const bool early_b = encoder[b] < backbone[b];
    if (early_a != early_b) return early_a;
    return early_a ? encoder[a] < encoder[b] : backbone[a] > backbone[b];
  });
}

}  // namespace

RoundOrder natural_order(std::int64_t rounds) {
  RoundOrder order(static_cast<std::size_t>(rounds));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

RoundOrder small_rounds_out(std::span<const double> encoder, std::int64_t stages) {
  if (encoder.size() < 2) return natural_order(std::ssize(encoder));
  RoundOrder order = sorted_by(
      encoder.size(), [&](std::int64_t a, std::int64_t b) { return encoder[a] < encoder[b]; });
  // Moves the next `last` rounds behind the others, which run in their natural order.
  const auto last = std::min<std::ptrdiff_t>(stages - 1, std::ssize(order) - 1);
  std::sort(order.begin() + 1 + last, order.end());
  std::rotate(order.begin() + 1, order.begin() + 1 + last, order.end());
  return order;
}

std::vector<RoundOrder> starting_orders(std::span<const double> encoder,
                                        std::span<const double> backbone, std::int64_t stages) {
  std::vector<RoundOrder> orders = {natural_order(std::ssize(encoder))};
  if (encoder.size() < 2) return orders;
  orders.push_back(sorted_by(
      encoder.size(), [&](std::int64_t a, std::int64_t b) { return backbone[a] > backbone[b]; }));
  orders.push_back(johnson(encoder, backbone));
  orders.push_back(small_rounds_out(encoder, stages));
  return orders;
}

std::int64_t swap_rounds(RoundOrder& order, std::int64_t time, std::int64_t swaps,
                         std::uint64_t seed,
                         const std::function<std::int64_t(const RoundOrder&)>& time_of) {
  if (order.size() < 2) return time;
  RandomStream random(seed, "order of rounds");
  for (std::int64_t swap = 0; swap < swaps; ++swap) {
    const std::size_t a = static_cast<std::size_t>(random.below(order.size()));
    const std::size_t b = static_cast<std::size_t>(random.below(order.size()));
    if (a == b) continue;
    std::swap(order[a], order[b]);
    const std::int64_t swapped = time_of(order);
    if (swapped <= time)
      time = swapped;
    else
      std::swap(order[a], order[b]);
  }
  return time;
}

}  // namespace tributary::studies
