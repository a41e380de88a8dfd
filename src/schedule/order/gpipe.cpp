#include "schedule/order/all_orders.h"

namespace tributary::schedule {

StageLists list_gpipe(const OrderShape& shape) {
  ActionList list;
  list.reserve(std::size_t{2} * shape.microbatches);
  for (const Op op : {Op::kForward, Op::kBackward})
    for (int microbatch = 0; microbatch < shape.microbatches; ++microbatch)
      list.push_back({.op = op, .microbatch = microbatch});
  return StageLists(static_cast<std::size_t>(shape.stages), list);
}

}  // namespace tributary::schedule
