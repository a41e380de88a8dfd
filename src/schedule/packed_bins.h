#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace tributary::schedule {

/// Samples packed back to back into sequences: the items of each bin.
struct PackedBins {
  std::vector<std::int32_t> first;  // [bins + 1] where each bin begins in `items`
  std::vector<std::int32_t> items;  // index of the input, in the order of packing

  [[nodiscard]] std::int64_t bins() const { return std::ssize(first) - 1; }
  [[nodiscard]] std::span<const std::int32_t> bin(std::int64_t index) const {
    return std::span(items).subspan(first[index], first[index + 1] - first[index]);
  }
};

/// How full bins are.
struct PackingFill {
  std::int64_t bins = 0;
  Tokens tokens;     // in all bins
  Tokens padding;    // free
  double share = 0;  // tokens / (tokens + padding); 1 without bins
};

[[nodiscard]] PackingFill measure_fill(const PackedBins& packed, std::span<const Tokens> lengths,
                                       Tokens capacity);

/// Checks what every packing needs: a capacity, and items that fit.
///
/// units:  capacity 1 to kMaxCapacity, lengths 1 to capacity
/// errors: Fault::kInput naming the item
void check_lengths(std::span<const Tokens> lengths, Tokens capacity);

inline constexpr Tokens kMaxCapacity = {std::int64_t{1} << 26};

}  // namespace tributary::schedule
