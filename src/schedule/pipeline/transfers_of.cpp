#include "core/error.h"
#include "schedule/pipeline/lower_schedule.h"

namespace tributary::schedule {
namespace {

/// Finds the transfers of one pass.
class Neighbours {
 public:
  Neighbours(const PipelineMap& map, int lane, const Action& pass)
      : map_(map),
        of_(map.at(lane)),
        module_(map.pipeline().modules[of_.module]),
        pass_(pass),
        virtual_stage_(map.virtual_stage(of_.module, of_.stage, pass.chunk)) {}

  [[nodiscard]] PassTransfers list() {
    const bool is_first = virtual_stage_ == 0;
    const bool is_last = virtual_stage_ == module_.virtual_stages() - 1;
    if (pass_.op == Op::kForward) {
      if (!is_first) come_from(virtual_stage_ - 1, Op::kReceiveActivation);
      if (!is_last) go_to(virtual_stage_ + 1, Op::kSendActivation, Op::kHandActivation);
      if (is_first) come_along(map_.edges_into(of_.module), Op::kReceiveFeatures);
      if (is_last) go_along(map_.edges_from(of_.module), Op::kSendFeatures);
    } else if (gives_input_gradient(pass_.op)) {
      if (!is_last) come_from(virtual_stage_ + 1, Op::kReceiveGradient);
      if (!is_first && map_.has_backward(of_.module, virtual_stage_ - 1))
        go_to(virtual_stage_ - 1, Op::kSendGradient, Op::kHandGradient);
      if (is_last) come_along(map_.edges_from(of_.module), Op::kReceiveFeatureGradients);
      if (is_first) go_along(edges_with_gradient(), Op::kSendFeatureGradients);
    }
    return transfers_;
  }

 private:
  [[nodiscard]] std::vector<int> edges_with_gradient() const {
    std::vector<int> edges;
    for (const int edge : map_.edges_into(of_.module)) {
      const int from = map_.pipeline().edges[edge].from;
      if (map_.has_backward(from, map_.pipeline().modules[from].virtual_stages() - 1))
        edges.push_back(edge);
    }
    return edges;
  }

  [[nodiscard]] int lane_at(int virtual_stage) const {
    return map_.lane_of(
        {of_.module, of_.replica, map_.position_of(of_.module, virtual_stage).stage});
  }
  [[nodiscard]] Action transfer(Op op, int peer, Bytes bytes) const {
    return {.op = op,
            .chunk = pass_.chunk,
            .microbatch = pass_.microbatch,
            .peer = peer,
            .bytes = bytes};
  }
  [[nodiscard]] bool is_here(int virtual_stage) const {
    return map_.position_of(of_.module, virtual_stage).stage == of_.stage;
  }

  void come_from(int virtual_stage, Op op) {
    if (is_here(virtual_stage)) return;  // LC hands it over
    transfers_.receives.push_back(transfer(op, lane_at(virtual_stage), module_.boundary));
  }
  void go_to(int virtual_stage, Op send, Op hand) {
    transfers_.sends.push_back(is_here(virtual_stage)
                                   ? transfer(hand, -1, {})
                                   : transfer(send, lane_at(virtual_stage), module_.boundary));
  }
  void come_along(const std::vector<int>& edges, Op op) {
    for (const int edge : edges)
      if (!map_.carries_ahead(edge))
        transfers_.receives.push_back(transfer(op, edge, bytes_along(edge)));
  }
  void go_along(const std::vector<int>& edges, Op op) {
    for (const int edge : edges) transfers_.sends.push_back(transfer(op, edge, bytes_along(edge)));
  }
  [[nodiscard]] Bytes bytes_along(int edge) const {
    return map_.pipeline().modules[map_.pipeline().edges[edge].from].boundary;
  }

  const PipelineMap& map_;
  Lane of_;
  const PipelineModule& module_;
  const Action& pass_;
  int virtual_stage_;
  PassTransfers transfers_;
};

Op far_op(Op op) {
  switch (op) {
    case Op::kSendActivation:
      return Op::kReceiveActivation;
    case Op::kReceiveActivation:
      return Op::kSendActivation;
    case Op::kSendGradient:
      return Op::kReceiveGradient;
    case Op::kReceiveGradient:
      return Op::kSendGradient;
    case Op::kSendFeatures:
      return Op::kReceiveFeatures;
    case Op::kReceiveFeatures:
      return Op::kSendFeatures;
    case Op::kSendFeatureGradients:
      return Op::kReceiveFeatureGradients;
    case Op::kReceiveFeatureGradients:
      return Op::kSendFeatureGradients;
    case Op::kSendTurn:
      return Op::kReceiveTurn;
    case Op::kReceiveTurn:
      return Op::kSendTurn;
    default:
      TRIB_RAISE(Fault::kBug, .what = "schedule: action is no transfer",
                 .found = std::string(name_of(op)));
  }
}

bool is_along_edge(Op op) { return op >= Op::kSendFeatures && op <= Op::kReceiveFeatureGradients; }

/// The far ends where features of an edge leave (last virtual stage) or enter (first one).
std::vector<FarEnd> far_ends_of_edge(const PipelineMap& map, const Action& transfer) {
  const PipelineEdge& edge = map.pipeline().edges[transfer.peer];
  const bool goes_forward =
      transfer.op == Op::kSendFeatures || transfer.op == Op::kReceiveFeatureGradients;
  const int module = goes_forward ? edge.to : edge.from;
  const PipelineModule& of = map.pipeline().modules[module];
  const auto [stage, chunk] = map.position_of(module, goes_forward ? 0 : of.virtual_stages() - 1);
  Action far = transfer;
  far.op = far_op(transfer.op);
  far.chunk = chunk;
  std::vector<FarEnd> ends;
  for (int replica = 0; replica < of.replicas; ++replica)
    ends.push_back({map.lane_of({module, replica, stage}), far});
  return ends;
}

}  // namespace

PassTransfers transfers_of(const PipelineMap& map, int lane, const Action& pass) {
  return Neighbours(map, lane, pass).list();
}

std::vector<Action> receives_ahead(const PipelineMap& map, int lane) {
  std::vector<Action> receives;
  const Lane of = map.at(lane);
  const auto [stage, chunk] = map.position_of(of.module, 0);
  if (of.stage != stage) return receives;
  for (const int edge : map.edges_into(of.module)) {
    if (!map.carries_ahead(edge)) continue;
    const int from = map.pipeline().edges[edge].from;
    for (int microbatch = 0; microbatch < map.microbatches_of(from); ++microbatch)
      receives.push_back({.op = Op::kReceiveFeatures,
                          .chunk = chunk,
                          .microbatch = microbatch,
                          .peer = edge,
                          .bytes = map.pipeline().modules[from].boundary});
  }
  return receives;
}

std::vector<FarEnd> far_ends_of(const PipelineMap& map, int lane, const Action& transfer) {
  if (is_along_edge(transfer.op)) return far_ends_of_edge(map, transfer);
  const Op op = far_op(transfer.op);
  if (is_turn(op)) {
    Action far = transfer;
    far.op = op;
    far.peer = lane;
    return {{transfer.peer, far}};
  }
  const Lane of = map.at(lane);
  const bool is_upstream =
      transfer.op == Op::kReceiveActivation || transfer.op == Op::kSendGradient;
  const int far_stage =
      map.virtual_stage(of.module, of.stage, transfer.chunk) + (is_upstream ? -1 : 1);
  const auto [stage, chunk] = map.position_of(of.module, far_stage);
  Action far = transfer;
  far.op = op;
  far.chunk = chunk;
  far.peer = lane;
  return {{map.lane_of({of.module, of.replica, stage}), far}};
}

}  // namespace tributary::schedule
