#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tributary {

/// A sub-range of a tensor in every dimension. A scalar has the box of rank 0 and volume 1.
struct Box {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> lengths;

  friend bool operator==(const Box&, const Box&) = default;
};

[[nodiscard]] Box whole_box(std::span<const std::int64_t> shape);
/// The number of elements; null when it does not fit in 63 bits or a length is negative.
[[nodiscard]] std::optional<std::int64_t> volume(std::span<const std::int64_t> lengths);
[[nodiscard]] bool lies_in(const Box& box, std::span<const std::int64_t> shape);
/// Null when they share no element. Both must have the same rank.
[[nodiscard]] std::optional<Box> intersect(const Box& a, const Box& b);

/// One contiguous piece that two row-major boxes share.
struct SharedRun {
  std::int64_t from = 0;  // element within the first box
  std::int64_t to = 0;    // element within the second box
  std::int64_t elements = 0;
};

/// Lists the runs of `from` that lie in `to`, ascending; inner dimensions that are whole in both
/// are merged.
[[nodiscard]] std::vector<SharedRun> shared_runs(const Box& from, const Box& to);

}  // namespace tributary
