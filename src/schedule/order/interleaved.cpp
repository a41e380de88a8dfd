#include <algorithm>

#include "schedule/order/all_orders.h"

namespace tributary::schedule {
namespace {

int group_of(const OrderShape& shape) { return shape.group > 0 ? shape.group : shape.stages; }

/// The forwards of every stage, in order.
ActionList list_forwards(const OrderShape& shape) {
  ActionList forwards;
  for (int first = 0; first < shape.microbatches; first += group_of(shape)) {
    const int end = std::min(first + group_of(shape), shape.microbatches);
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      for (int microbatch = first; microbatch < end; ++microbatch)
        forwards.push_back({.chunk = chunk, .microbatch = microbatch});
  }
  return forwards;
}

}  // namespace

int interleaved_warm_up(const OrderShape& shape, int stage) {
  const int ahead = 2 * (shape.stages - 1 - stage) + (shape.chunks - 1) * group_of(shape);
  return std::min(ahead + shape.extra_warm_up, shape.microbatches * shape.chunks);
}

StageLists list_interleaved(const OrderShape& shape) {
  const ActionList forwards = list_forwards(shape);
  const std::size_t passes = forwards.size();
  StageLists lists;
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto warm_up = static_cast<std::size_t>(interleaved_warm_up(shape, stage));
    ActionList list(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
    list.reserve(2 * passes);
    for (std::size_t k = 0; k < passes; ++k) {
      if (k + warm_up < passes) list.push_back(forwards[k + warm_up]);
      // Backwards visit the chunks from the last to the first.
      list.push_back({.op = Op::kBackward,
                      .chunk = shape.chunks - 1 - forwards[k].chunk,
                      .microbatch = forwards[k].microbatch});
    }
    lists.push_back(std::move(list));
  }
  return lists;
}

}  // namespace tributary::schedule
