#pragma once

#include <cstdint>
#include <span>

#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// Items that need room in several dimensions: tokens, patches, attention work.
struct VectorItems {
  std::span<const std::int64_t> needs;       // [items, dimensions], each 0 to its capacity
  std::span<const std::int64_t> capacities;  // [dimensions], of every bin

  [[nodiscard]] std::int64_t dimensions() const { return std::ssize(capacities); }
  [[nodiscard]] std::int64_t items() const { return std::ssize(needs) / dimensions(); }
};

/// Packs a window that is known as a whole, the item with the max share of a capacity first (ties:
/// the first one). Each goes into the bin that has room in every dimension and the least free
/// share, summed over dimensions; ties take the oldest.
///
/// shape:  bins in the order in which they were opened
/// errors: Fault::kInput when there is no dimension, a capacity is not 1 to kMaxVectorCapacity,
///         `needs` is not whole rows or has more than kMaxVectorItems, or an item does not fit,
///         which names item and dimension
/// cost:   O(items * bins * dimensions)
/// source: Panigrahy 2011, "Heuristics for vector bin packing", best fit decreasing by the largest
///         share
[[nodiscard]] PackedBins pack_vector(const VectorItems& items);

/// Lower bound on the number of bins: packing_bound() of the worst dimension.
///
/// errors: those of pack_vector()
[[nodiscard]] std::int64_t vector_packing_bound(const VectorItems& items);

inline constexpr std::int64_t kMaxVectorCapacity = std::int64_t{1} << 42;
inline constexpr std::int64_t kMaxVectorItems = std::int64_t{1} << 20;

}  // namespace tributary::schedule
