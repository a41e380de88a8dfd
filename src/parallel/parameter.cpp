#include "parallel/parameter.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tributary::parallel {
namespace {

std::int64_t product(std::span<const std::int64_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{1}, std::multiplies<>());
}

/// Appends the boxes of the elements [begin, end) of a row-major tensor; `at` names the row of each
/// dimension before `dim`.
void cut_range(std::span<const std::int64_t> shape, std::size_t dim, std::int64_t begin,
               std::int64_t end, std::vector<std::int64_t>& at, std::vector<Box>& boxes) {
  if (begin >= end) return;
  const auto add = [&](std::int64_t first, std::int64_t count) {
    Box box = whole_box(shape);
    for (std::size_t i = 0; i < dim; ++i) {
      box.offsets[i] = at[i];
      box.lengths[i] = 1;
    }
    if (dim < shape.size()) {
      box.offsets[dim] = first;
      box.lengths[dim] = count;
    }
    boxes.push_back(std::move(box));
  };
  if (dim >= shape.size()) return add(0, 1);
  const std::int64_t row = product(shape.subspan(dim + 1));
  const auto part_of_row = [&](std::int64_t index, std::int64_t from, std::int64_t to) {
    at[dim] = index;
    cut_range(shape, dim + 1, from, to, at, boxes);
  };
  const std::int64_t first_row = begin / row;
  const std::int64_t last_row = end / row;
  if (first_row == last_row) return part_of_row(first_row, begin % row, end % row);
  const std::int64_t whole_from = begin % row == 0 ? first_row : first_row + 1;
  if (begin % row != 0) part_of_row(first_row, begin % row, row);
  if (last_row > whole_from) add(whole_from, last_row - whole_from);
  if (end % row != 0) part_of_row(last_row, 0, end % row);
}

}  // namespace

std::vector<std::int64_t> Parameter::local_shape() const {
  std::vector<std::int64_t> local = shape;
  if (split.dim >= 0) local[static_cast<std::size_t>(split.dim)] = split.padded;
  return local;
}

std::int64_t Parameter::elements() const { return product(shape); }
std::int64_t Parameter::local_elements() const { return product(local_shape()); }

std::vector<PlacedBox> boxes_of(const Parameter& parameter, std::int64_t begin, std::int64_t end) {
  const std::vector<std::int64_t> shape = parameter.local_shape();
  std::vector<Box> local;
  std::vector<std::int64_t> at(shape.size());
  cut_range(shape, 0, begin, end, at, local);

  std::vector<PlacedBox> placed;
  std::int64_t first = 0;
  const auto dim = static_cast<std::size_t>(parameter.split.dim);
  for (const Box& box : local) {
    const std::int64_t elements = product(box.lengths);
    if (parameter.split.dim < 0) {
      placed.push_back({box, first});
    } else {
      const std::int64_t entry = elements / std::max<std::int64_t>(1, box.lengths[dim]);
      std::int64_t start = 0;  // of the range, among the local entries
      for (const Range& range : parameter.split.ranges) {
        const std::int64_t from = std::max(start, box.offsets[dim]);
        const std::int64_t to = std::min(start + range.count, box.offsets[dim] + box.lengths[dim]);
        if (from < to) {
          Box piece = box;
          piece.offsets[dim] = range.first + from - start;
          piece.lengths[dim] = to - from;
          placed.push_back({std::move(piece), first + (from - box.offsets[dim]) * entry});
        }
        start += range.count;
      }
    }
    first += elements;
  }
  return placed;
}

}  // namespace tributary::parallel
