#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tributary::studies {

/// The rounds of a step in the order in which they run.
using RoundOrder = std::vector<std::int64_t>;

[[nodiscard]] RoundOrder natural_order(std::int64_t rounds);
/// The round with the least encoder work first; the next smallest, one fewer than stages, last.
[[nodiscard]] RoundOrder small_rounds_out(std::span<const double> encoder, std::int64_t stages);

/// Orders to start a search from: natural, longest backbone first, Johnson's rule on the two
/// modules, small rounds out.
///
/// shape:  encoder and backbone [rounds] seconds
/// source: docs/theory/planning.md, "Order of rounds"
[[nodiscard]] std::vector<RoundOrder> starting_orders(std::span<const double> encoder,
                                                      std::span<const double> backbone,
                                                      std::int64_t stages);

/// Swaps random pairs of rounds, drawn from `seed`, where the time does not grow.
///
/// returns the time of the final order
std::int64_t swap_rounds(RoundOrder& order, std::int64_t time, std::int64_t swaps,
                         std::uint64_t seed,
                         const std::function<std::int64_t(const RoundOrder&)>& time_of);

}  // namespace tributary::studies
