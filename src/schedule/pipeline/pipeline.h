#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/pipeline_order.h"
#include "schedule/order/action.h"
#include "schedule/order/order_shape.h"
#include "schedule/pass_groups.h"

namespace tributary::schedule {

/// One module of the pipeline: a chain of virtual stages, several on each stage.
struct PipelineModule {
  std::string name = {};
  config::PipelineOrder order = config::PipelineOrder::k1f1b;
  int stages = 1;
  int chunks = 1;                     // virtual stages on a stage
  int group = 0;                      // for the interleaved order; 0: `stages`
  int replicas = 1;                   // data parallel
  int passes = 0;                     // of a colocated module, which shares the ranks of the one
                                      // it feeds: microbatches that have input; the others are
                                      // empty. 0: ranks of its own
  bool beside_first = false;          // of a colocated module: it lies on the ranks of the first
                                      // stage alone
  bool takes_turns = false;           // of a colocated module: each of its lanes lies on ranks of
                                      // one stage, and its passes run among those of the backbone
  bool ahead = false;                 // of one that takes turns and is frozen: its passes are those
                                      // of the step after
  std::vector<bool> trains = {};      // [virtual stages]; empty: all
  std::vector<PassTimes> times = {};  // [virtual stages], for orders fitted to times; empty: equal
  Bytes boundary = {};                // sent from a virtual stage for each microbatch

  [[nodiscard]] int virtual_stages() const { return stages * chunks; }
  [[nodiscard]] bool is_colocated() const { return passes > 0; }
  /// The number of passes in which a replica takes its part of a batch of `microbatches`.
  [[nodiscard]] int passes_of(int microbatches) const {
    return is_colocated() ? std::min(passes, microbatches) : microbatches;
  }
  /// Which microbatches a pass of a colocated module covers. Its forward is at the first of them in
  /// the lists and its backward at the last; the others are empty.
  [[nodiscard]] PassGroups groups_of(int microbatches) const { return {passes, microbatches}; }
  [[nodiscard]] bool has_weights_of(int virtual_stage) const {
    return trains.empty() || trains[virtual_stage];
  }
};

/// Features from the last virtual stage of one module to the first of another. Each receiving
/// replica may need those of every sending replica.
struct PipelineEdge {
  int from = 0;  // index of the module
  int to = 0;
};

/// The modules to schedule: encoders in front of a backbone, one microbatch after another.
struct Pipeline {
  std::vector<PipelineModule> modules;
  std::vector<PipelineEdge> edges;
  int microbatches = 1;  // of each replica of each module
  Nanoseconds hop = {};  // from a stage to its neighbour, for orders fitted to times
  std::optional<int> next_microbatches = {};  // of the step after, which a module ahead encodes; 0:
                                              // there is no such step; none: as many as in this one
};

/// The ranks that run one list: they share a stage of a replica.
struct Lane {
  int module = 0;
  int replica = 0;
  int stage = 0;

  friend bool operator==(const Lane&, const Lane&) = default;
};

/// The positions in a pipeline: lanes in the order of modules, replicas and stages.
///
/// owns: a copy of nothing; the pipeline must outlive it
class PipelineMap {
 public:
  /// errors: Fault::kInput when the modules do not form a pipeline: no module, an impossible size,
  ///         an edge to nowhere, a module that feeds none but is not the last one, a cycle; a
  ///         colocated module that is cut, or feeds anything but the last one
  explicit PipelineMap(const Pipeline& pipeline);

  [[nodiscard]] int lanes() const { return lanes_; }
  [[nodiscard]] int lane_of(const Lane& lane) const;
  [[nodiscard]] Lane at(int lane) const;
  [[nodiscard]] std::string describe(int lane) const;  // `vision replica 0 stage 1`
  /// The other lanes on a lane's ranks, ascending, where modules are colocated. The ranks of all
  /// these modules are in the order of stages and replicas.
  [[nodiscard]] std::vector<int> lanes_beside(int lane) const;
  /// Those of one other module.
  [[nodiscard]] std::vector<int> lanes_beside(int lane, int module) const;
  /// The other lanes on each of its ranks: each combination once, ascending.
  [[nodiscard]] std::vector<std::vector<int>> lanes_on_ranks(int lane) const;
  /// The modules that share ranks, in the order in which they begin a step: colocated ones that
  /// take no turns with the backbone, those that do, the backbone. Empty: none is colocated.
  [[nodiscard]] const std::vector<int>& sharers() const { return sharers_; }
  /// The place of a lane's module among them; their number: it is none.
  [[nodiscard]] std::ptrdiff_t turn_of(int lane) const {
    return std::ranges::find(sharers_, at(lane).module) - sharers_.begin();
  }
  /// Whether any of them takes turns with the backbone.
  [[nodiscard]] bool backbone_alternates() const {
    return std::ranges::any_of(sharers_,
                               [this](int module) { return alternate(module, flow_.back()); });
  }
  /// Whether it is a lane of a colocated module.
  [[nodiscard]] bool is_colocated(int lane) const {
    return !sharers_.empty() && pipeline_.modules[at(lane).module].is_colocated();
  }
  /// Whether lanes of two modules on the same ranks take turns, by TS and TR in their lists:
  /// colocated modules with each other, and with the backbone where they say so, or where its order
  /// leaves weight gradients behind which they go back.
  [[nodiscard]] bool alternate(int one, int other) const;
  /// Whether it is a lane of a module that encodes for the step after.
  [[nodiscard]] bool is_ahead(int lane) const { return pipeline_.modules[at(lane).module].ahead; }
  /// Whether an edge carries features for the step after: they arrive in this one.
  [[nodiscard]] bool carries_ahead(int edge) const {
    return edge >= 0 && pipeline_.modules[pipeline_.edges[edge].from].ahead;
  }
  /// The microbatches in the lists of a module.
  [[nodiscard]] int microbatches_of(int module) const {
    const bool ahead = pipeline_.modules[module].ahead;
    return ahead ? pipeline_.next_microbatches.value_or(pipeline_.microbatches)
                 : pipeline_.microbatches;
  }
  /// Whether an edge carries features of a colocated module and their gradients.
  [[nodiscard]] bool is_of_colocated(int edge) const {
    return edge >= 0 && pipeline_.modules[pipeline_.edges[edge].from].is_colocated();
  }
  /// Whether such an edge carries one batch, where lanes take no turns: none of it is used before
  /// all is there, of every microbatch from every replica, so that one lane of a rank is finished
  /// before the other begins.
  [[nodiscard]] bool goes_in_one_batch(int edge) const {
    return is_of_colocated(edge) && !pipeline_.modules[pipeline_.edges[edge].from].takes_turns;
  }

  [[nodiscard]] int virtual_stage(int module, int stage, int chunk) const;
  struct Position {
    int stage;
    int chunk;
  };
  [[nodiscard]] Position position_of(int module, int virtual_stage) const;

  /// Whether something at or before the virtual stage trains, so that gradients pass through it.
  [[nodiscard]] bool has_backward(int module, int virtual_stage) const;
  /// Edges into and out of a module, ascending.
  [[nodiscard]] const std::vector<int>& edges_into(int module) const { return into_[module]; }
  [[nodiscard]] const std::vector<int>& edges_from(int module) const { return from_[module]; }
  /// The modules, each before those that it feeds; otherwise in their order.
  [[nodiscard]] const std::vector<int>& flow() const { return flow_; }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }

 private:
  void check_modules() const;
  void check_colocated();
  void check_turns(int index) const;
  void order_modules();
  void find_backwards();
  [[nodiscard]] std::int64_t parts_of(int module) const;
  [[nodiscard]] std::int64_t part_of(const Lane& lane) const;

  const Pipeline& pipeline_;
  int lanes_ = 0;
  std::vector<int> sharers_;
  std::vector<int> first_lane_;              // [modules]
  std::vector<std::vector<int>> into_;       // [modules] edges
  std::vector<std::vector<int>> from_;       // [modules] edges
  std::vector<int> flow_;                    // [modules]
  std::vector<std::vector<bool>> backward_;  // [modules][virtual stages]
};

/// An ordered list for every lane, and its promises.
struct Schedule {
  Pipeline pipeline;
  std::vector<ActionList> lists;  // [lanes]
  std::vector<int> in_flight;     // [lanes] max chunk activations ever kept
};

/// Lists the passes of every lane. The backbone follows its order. A module in front of it is ahead
/// as far as the backbone needs (1f1b, or zb_h1 with the backward split), and only runs forwards if
/// nothing in it needs gradients. A colocated module runs all forwards before the backbone's first
/// pass and all backwards after its last, weight gradients included, or takes turns with it;
/// several take turns with each other too (take_turns). A module ahead has the passes of the step
/// after in its lists. Passes that frozen layers do not need are left out.
///
/// errors: Fault::kInput when an order cannot be made for its module, or postpones weight gradients
///         beside a colocated module that trains and takes turns
/// source: docs/theory/parallelism.md, "Orders of passes"
[[nodiscard]] Schedule schedule_passes(const Pipeline& pipeline);

}  // namespace tributary::schedule
