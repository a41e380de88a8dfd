#include <algorithm>

#include "core/error.h"
#include "schedule/order/all_orders.h"
#include "schedule/pipeline/pipeline.h"
#include "schedule/pipeline/take_turns.h"

namespace tributary::schedule {
namespace {

using config::PipelineOrder;

OrderShape shape_of(const Pipeline& pipeline, const PipelineModule& module) {
  return {.stages = module.stages,
          .microbatches = pipeline.microbatches,
          .chunks = module.chunks,
          .group = module.group,
          .times = module.times,
          .hop = pipeline.hop};
}

/// For each microbatch, the number of inputs that the module needs before its gradient comes back.
std::vector<int> fed_before_gradient(const ActionList& first_stage, int microbatches) {
  std::vector<int> fed(static_cast<std::size_t>(microbatches), 0);
  int forwards = 0;
  for (const Action& action : first_stage) {
    if (action.chunk != 0) continue;
    if (action.op == Op::kForward) ++forwards;
    if (gives_input_gradient(action.op)) fed[action.microbatch] = forwards;
  }
  return fed;
}

/// The lists of a module in front: each stage is one forward further ahead than the next stage.
StageLists list_branch(const PipelineModule& module, const std::vector<int>& fed) {
  const int microbatches = static_cast<int>(fed.size());
  const bool split = traits_of(module.order).splits_backward;
  StageLists lists;
  for (int stage = 0; stage < module.stages; ++stage) {
    ActionList& list = lists.emplace_back();
    int forward = 0;
    for (int backward = 0; backward < microbatches; ++backward) {
      const int ahead = std::max(fed[backward], backward) + module.stages - stage;
      for (; forward < std::min(ahead, microbatches); ++forward)
        list.push_back({.op = Op::kForward, .microbatch = forward});
      list.push_back({.op = split ? Op::kBackwardInput : Op::kBackward, .microbatch = backward});
      // Gradients come at the pace of the backbone, so there is time for W right away.
      if (split) list.push_back({.op = Op::kBackwardWeight, .microbatch = backward});
    }
  }
  return lists;
}

/// The list of a colocated module, which has its ranks to itself before and after the backbone.
StageLists list_colocated(int microbatches) {
  ActionList list;
  for (const Op op : {Op::kForward, Op::kBackward})
    for (int microbatch = 0; microbatch < microbatches; ++microbatch)
      list.push_back({.op = op, .microbatch = microbatch});
  return {list};
}

/// Leaves out useless passes: gradients of frozen weights, and backwards where nothing at or before
/// the virtual stage trains.
ActionList without_needless_passes(const PipelineMap& map, int module, int stage,
                                   const ActionList& list) {
  ActionList needed;
  needed.reserve(list.size());
  for (Action action : list) {
    const int virtual_stage = map.virtual_stage(module, stage, action.chunk);
    if (action.op != Op::kForward && !map.has_backward(module, virtual_stage)) continue;
    if (!map.pipeline().modules[module].has_weights_of(virtual_stage)) {
      if (action.op == Op::kBackwardWeight) continue;
      if (action.op == Op::kBackward) action.op = Op::kBackwardInput;
    }
    needed.push_back(action);
  }
  return needed;
}

int max_ahead(const ActionList& list) {
  int live = 0;
  int max = 0;
  for (const Action& action : list) {
    if (action.op == Op::kForward) max = std::max(max, ++live);
    if (gives_weight_gradient(action.op)) --live;
  }
  return max;
}

/// Fills the lists of one module, after those of the modules that it feeds.
class ModuleSchedule {
 public:
  ModuleSchedule(const PipelineMap& map, int index, Schedule& schedule)
      : map_(map), module_(map.pipeline().modules[index]), index_(index), schedule_(schedule) {}

  void fill() {
    const bool is_branch = !map_.edges_from(index_).empty();
    const StageLists lists = is_branch ? branch() : own_order();
    const OrderShape shape = shape_of(map_.pipeline(), module_);
    for (int replica = 0; replica < module_.replicas; ++replica) {
      for (int stage = 0; stage < module_.stages; ++stage) {
        const int lane = map_.lane_of({index_, replica, stage});
        schedule_.lists[lane] = without_needless_passes(map_, index_, stage, lists[stage]);
        schedule_.in_flight[lane] =
            is_branch ? max_ahead(lists[stage]) : traits_of(module_.order).in_flight(shape, stage);
      }
    }
  }

 private:
  [[nodiscard]] StageLists own_order() const {
    const Result<StageLists> lists = list_passes(module_.order, shape_of(map_.pipeline(), module_));
    TRIB_REQUIRE(lists.has_value(), .what = "schedule: order cannot be made", .where = module_.name,
                 .found = lists.refusal().reason);
    return lists.value();
  }

  [[nodiscard]] StageLists branch() const {
    TRIB_REQUIRE(module_.order == PipelineOrder::k1f1b || module_.order == PipelineOrder::kZbH1,
                 .what = "schedule: module in front of another cannot have this order",
                 .where = module_.name, .found = std::string(traits_of(module_.order).name),
                 .expected = "1f1b or zb_h1: it follows the module that it feeds");
    TRIB_REQUIRE(module_.chunks == 1, .what = "schedule: module in front of another is cut twice",
                 .where = module_.name, .found = str(module_.chunks, " chunks a stage"),
                 .expected = "1");
    if (module_.is_colocated()) return colocated();
    std::vector<int> fed(static_cast<std::size_t>(map_.pipeline().microbatches), 0);
    for (const int edge : map_.edges_from(index_)) {
      const int lane = map_.lane_of({map_.pipeline().edges[edge].to, 0, 0});
      const std::vector<int> of_edge =
          fed_before_gradient(schedule_.lists[lane], map_.pipeline().microbatches);
      std::transform(fed.begin(), fed.end(), of_edge.begin(), fed.begin(),
                     [](int a, int b) { return std::max(a, b); });
    }
    return list_branch(module_, fed);
  }

  /// Refuses postponed weight gradients among turns, whose places are those of whole backwards.
  [[nodiscard]] StageLists colocated() const {
    const PipelineModule& fed = map_.pipeline().modules[map_.flow().back()];
    TRIB_REQUIRE(
        !module_.takes_turns || !map_.has_backward(index_, 0) ||
            !traits_of(fed.order).splits_backward,
        .what = "schedule: order puts weight gradients off beside a module that takes turns",
        .where = fed.name, .found = std::string(traits_of(fed.order).name),
        .expected = "an order with whole backwards, as 1f1b, or a frozen module",
        .fix = str("give ", fed.name, " another schedule, or ", module_.name, " no turns"));
    return list_colocated(map_.microbatches_of(index_));
  }

  const PipelineMap& map_;
  const PipelineModule& module_;
  int index_;
  Schedule& schedule_;
};

}  // namespace

Schedule schedule_passes(const Pipeline& pipeline) {
  const PipelineMap map(pipeline);
  Schedule schedule{.pipeline = pipeline,
                    .lists = std::vector<ActionList>(static_cast<std::size_t>(map.lanes())),
                    .in_flight = std::vector<int>(static_cast<std::size_t>(map.lanes()))};
  // From the backbone to the front: a module is ahead as far as the next modules need.
  for (auto module = map.flow().rbegin(); module != map.flow().rend(); ++module)
    ModuleSchedule(map, *module, schedule).fill();
  take_turns(map, schedule);
  return schedule;
}

}  // namespace tributary::schedule
