#include "schedule/best_fit.h"

#include <algorithm>
#include <numeric>

#include "schedule/open_bins.h"

namespace tributary::schedule {

PackedBins best_fit(std::span<const Tokens> lengths, Tokens capacity,
                    std::span<const std::int32_t> order) {
  if (lengths.empty()) return {.first = {0}, .items = {}};
  // A bin with less room than the shortest item is not looked at again.
  const Tokens shortest = *std::min_element(lengths.begin(), lengths.end());
  OpenBins open(capacity.count);
  std::vector<std::int64_t> room;                  // by bin
  std::vector<std::int32_t> bin_of(order.size());  // by place in the order
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::int64_t length = lengths[order[place]].count;
    std::int32_t bin = open.take_best(length);
    if (bin == OpenBins::kNone) {
      bin = static_cast<std::int32_t>(room.size());
      room.push_back(capacity.count);
    }
    bin_of[place] = bin;
    room[bin] -= length;
    if (room[bin] >= shortest.count) open.insert(bin, room[bin], /*age=*/bin);
  }
  PackedBins packed = {.first = std::vector<std::int32_t>(room.size() + 1),
                       .items = std::vector<std::int32_t>(order.size())};
  for (const std::int32_t bin : bin_of) ++packed.first[bin + 1];
  for (std::size_t bin = 1; bin < packed.first.size(); ++bin) {
    packed.first[bin] += packed.first[bin - 1];
  }
  std::vector<std::int32_t> next(packed.first.begin(), packed.first.end() - 1);
  for (std::size_t place = 0; place < order.size(); ++place) {
    packed.items[next[bin_of[place]]++] = order[place];
  }
  return packed;
}

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
