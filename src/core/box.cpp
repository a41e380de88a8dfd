#include "core/box.h"

#include <algorithm>

namespace tributary {
namespace {

/// Row-major position of a point within a box.
std::int64_t position_in(const Box& box, std::span<const std::int64_t> point) {
  std::int64_t position = 0;
  for (std::size_t i = 0; i < point.size(); ++i)
    position = position * box.lengths[i] + point[i] - box.offsets[i];
  return position;
}

/// Moves to the next point of the box in its first `dimensions`; false after the last one.
bool advance(const Box& box, std::size_t dimensions, std::vector<std::int64_t>& point) {
  for (std::size_t i = dimensions; i-- > 0;) {
    if (++point[i] < box.offsets[i] + box.lengths[i]) return true;
    point[i] = box.offsets[i];
  }
  return false;
}

}  // namespace

Box whole_box(std::span<const std::int64_t> shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), {shape.begin(), shape.end()}};
}

std::optional<std::int64_t> volume(std::span<const std::int64_t> lengths) {
  std::int64_t product = 1;
  for (const std::int64_t length : lengths)
    if (length < 0 || __builtin_mul_overflow(product, length, &product)) return std::nullopt;
  return product;
}

bool lies_in(const Box& box, std::span<const std::int64_t> shape) {
  if (box.offsets.size() != shape.size() || box.lengths.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (box.offsets[i] < 0 || box.lengths[i] < 0 || box.lengths[i] > shape[i] ||
        box.offsets[i] > shape[i] - box.lengths[i])
      return false;
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box both = a;
  for (std::size_t i = 0; i < a.offsets.size(); ++i) {
    const std::int64_t begin = std::max(a.offsets[i], b.offsets[i]);
    const std::int64_t end = std::min(a.offsets[i] + a.lengths[i], b.offsets[i] + b.lengths[i]);
    if (end <= begin) return std::nullopt;
    both.offsets[i] = begin;
    both.lengths[i] = end - begin;
  }
  return both;
}

std::vector<SharedRun> shared_runs(const Box& from, const Box& to) {
  const std::optional<Box> both = intersect(from, to);
  if (!both) return {};
  // The inner dimensions [outer, rank) form one run; all but the first of them are whole in both.
  std::size_t outer = both->lengths.size();
  std::int64_t elements = 1;
  while (outer > 0) {
    --outer;
    const std::int64_t length = both->lengths[outer];
    elements *= length;
    if (length != from.lengths[outer] || length != to.lengths[outer]) break;
  }
  std::vector<SharedRun> runs;
  std::vector<std::int64_t> point = both->offsets;
  do {
    runs.push_back({position_in(from, point), position_in(to, point), elements});
  } while (advance(*both, outer, point));
  return runs;
}

}  // namespace tributary
