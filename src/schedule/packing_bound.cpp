#include "schedule/packing_bound.h"

#include <algorithm>
#include <vector>

#include "schedule/packed_bins.h"

namespace tributary::schedule {

std::int64_t packing_bound(std::span<const Tokens> lengths, Tokens capacity) {
  check_lengths(lengths, capacity);
  std::vector<std::int64_t> sizes;
  for (const Tokens length : lengths) sizes.push_back(length.count);
  return packing_bound(std::move(sizes), capacity.count);
}

std::int64_t packing_bound(std::vector<std::int64_t> sorted, std::int64_t room) {
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> sum(sorted.size() + 1);  // of the items before a position
  for (std::size_t i = 0; i < sorted.size(); ++i) sum[i + 1] = sum[i] + sorted[i];
  const auto count_up_to = [&](std::int64_t length) {
    return std::upper_bound(sorted.begin(), sorted.end(), length) - sorted.begin();
  };

  const std::ptrdiff_t halves = count_up_to(room / 2);
  // For a threshold k: items above room - k cannot share a bin with items of at least k; items
  // above a half cannot share one with each other; items between k and a half fill their gaps.
  const auto bound_at = [&](std::int64_t k) {
    const std::ptrdiff_t above = count_up_to(room - k);
    const std::ptrdiff_t below = count_up_to(k - 1);
    const std::int64_t alone = std::ssize(sorted) - above;
    const std::int64_t large = above - halves;
    const std::int64_t gaps = large * room - (sum[above] - sum[halves]);
    const std::int64_t small = sum[halves] - sum[below];
    return alone + large + std::max<std::int64_t>(0, (small - gaps + room - 1) / room);
  };
  std::int64_t bound = bound_at(1);
  for (std::ptrdiff_t i = 0; i < halves; ++i) bound = std::max(bound, bound_at(sorted[i]));
  return bound;
}

}  // namespace tributary::schedule
