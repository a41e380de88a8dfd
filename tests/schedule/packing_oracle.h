#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"
#include "core/units.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

using Bins = std::vector<std::vector<std::int64_t>>;

inline std::vector<Tokens> tokens(const std::vector<std::int64_t>& counts) {
  std::vector<Tokens> lengths;
  for (const std::int64_t count : counts) lengths.push_back({count});
  return lengths;
}

inline std::vector<Tokens> random_lengths(RandomStream& random, std::int64_t items,
                                          std::int64_t longest) {
  std::vector<Tokens> lengths(static_cast<std::size_t>(items));
  for (Tokens& length : lengths) length.count = random.between(1, longest);
  return lengths;
}

/// The lengths in each bin, in the order in which they were put in.
inline Bins lengths_of(const PackedBins& packed, std::span<const Tokens> lengths) {
  Bins bins;
  for (std::int64_t bin = 0; bin < packed.bins(); ++bin) {
    bins.emplace_back();
    for (const std::int32_t item : packed.bin(bin)) bins.back().push_back(lengths[item].count);
  }
  return bins;
}

/// Best fit as its sentence says, by looking at every bin.
inline Bins best_fit_by_search(std::span<const Tokens> lengths, Tokens capacity) {
  Bins bins;
  std::vector<std::int64_t> room;
  for (const Tokens length : lengths) {
    std::size_t best = bins.size();
    for (std::size_t bin = 0; bin < bins.size(); ++bin) {
      const bool fits = room[bin] >= length.count;
      if (fits && (best == bins.size() || room[bin] < room[best])) best = bin;
    }
    if (best == bins.size()) {
      bins.emplace_back();
      room.push_back(capacity.count);
    }
    bins[best].push_back(length.count);
    room[best] -= length.count;
  }
  return bins;
}

/// The fewest bins, by trying every place for every item.
inline std::int64_t fewest_bins(std::span<const Tokens> lengths, Tokens capacity,
                                std::vector<std::int64_t> rooms = {}) {
  if (lengths.empty()) return std::ssize(rooms);
  std::int64_t fewest = std::int64_t{1} << 30;
  for (std::size_t bin = 0; bin <= rooms.size(); ++bin) {
    std::vector<std::int64_t> left = rooms;
    if (bin == rooms.size()) left.push_back(capacity.count);
    left[bin] -= lengths[0].count;
    if (left[bin] >= 0) fewest = std::min(fewest, fewest_bins(lengths.subspan(1), capacity, left));
  }
  return fewest;
}

}  // namespace tributary::schedule
