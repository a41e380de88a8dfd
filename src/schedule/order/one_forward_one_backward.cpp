#include <algorithm>

#include "schedule/order/all_orders.h"

namespace tributary::schedule {
namespace {

ActionList list_stage(int microbatches, int warm_up) {
  ActionList list;
  list.reserve(std::size_t{2} * microbatches);
  int forward = 0;
  for (int backward = 0; backward < microbatches; ++backward) {
    for (; forward < std::min(backward + warm_up + 1, microbatches); ++forward)
      list.push_back({.op = Op::kForward, .microbatch = forward});
    list.push_back({.op = Op::kBackward, .microbatch = backward});
  }
  return list;
}

}  // namespace

StageLists list_1f1b(const OrderShape& shape) {
  StageLists lists;
  // A stage is ahead by its distance to the last stage, where a backward follows its forward.
  for (int stage = 0; stage < shape.stages; ++stage)
    lists.push_back(list_stage(shape.microbatches, shape.stages - 1 - stage));
  return lists;
}

}  // namespace tributary::schedule
