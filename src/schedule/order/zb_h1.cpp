#include <algorithm>

#include "schedule/order/all_orders.h"

namespace tributary::schedule {
namespace {

ActionList list_stage(int stages, int stage, int microbatches) {
  ActionList list;
  list.reserve(std::size_t{3} * microbatches);
  const auto add = [&list](Op op, int microbatch) {
    list.push_back({.op = op, .microbatch = microbatch});
  };
  const int warm_up = std::min(stages - 1 - stage, microbatches);
  for (int forward = 0; forward < warm_up; ++forward) add(Op::kForward, forward);
  int weight = 0;
  for (int backward = 0; backward < microbatches; ++backward) {
    const bool steady = backward + warm_up < microbatches;
    if (steady) add(Op::kForward, backward + warm_up);
    add(Op::kBackwardInput, backward);
    // Stage p holds back p weight gradients, so that all stages hold as much as the first.
    if (steady ? backward >= stage : weight <= backward - stage) add(Op::kBackwardWeight, weight++);
  }
  while (weight < microbatches) add(Op::kBackwardWeight, weight++);
  return list;
}

}  // namespace

StageLists list_zb_h1(const OrderShape& shape) {
  StageLists lists;
  for (int stage = 0; stage < shape.stages; ++stage)
    lists.push_back(list_stage(shape.stages, stage, shape.microbatches));
  return lists;
}

}  // namespace tributary::schedule
