#include "schedule/pack_decreasing.h"

#include <algorithm>
#include <numeric>

#include "schedule/best_fit.h"

namespace tributary::schedule {

PackedBins pack_decreasing(std::span<const Tokens> lengths, Tokens capacity) {
  check_lengths(lengths, capacity);
  // One number sorts by length, longest first, then by position.
  std::vector<std::uint64_t> keys(lengths.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = static_cast<std::uint64_t>((capacity - lengths[i]).count) << 32 | i;
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::int32_t> order(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    order[i] = static_cast<std::int32_t>(keys[i] & 0xFFFFFFFFU);
  }
  return best_fit(lengths, capacity, order);
}

}  // namespace tributary::schedule
