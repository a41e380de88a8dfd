#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "config/pipeline_order.h"
#include "schedule/order/action.h"
#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// One module as the pipeline sees it: a chain of virtual stages, several of them on a stage.
struct PipelineModule {
  std::string name = {};
  config::PipelineOrder order = config::PipelineOrder::k1f1b;
  int stages = 1;
  int chunks = 1;                     // virtual stages of a stage
  int group = 0;                      // of the interleaved order; 0: stages
  int replicas = 1;                   // data parallel
  int passes = 0;                     // of a colocated module, on the ranks of the one it feeds: it
                                      // takes what it has of the batch in the first so many, and
                                      // the other microbatches are empty; 0: ranks of its own
  std::vector<bool> trains = {};      // [virtual stages]; empty: all
  std::vector<PassTimes> times = {};  // [virtual stages], for orders made to measure; empty: equal
  Bytes boundary = {};                // that one microbatch sends on from a virtual stage

  [[nodiscard]] int virtual_stages() const { return stages * chunks; }
  [[nodiscard]] bool is_colocated() const { return passes > 0; }
  /// In which a replica takes what it has of a batch of so many microbatches.
  [[nodiscard]] int passes_of(int microbatches) const {
    return is_colocated() ? std::min(passes, microbatches) : microbatches;
  }
  [[nodiscard]] bool has_weights_of(int virtual_stage) const {
    return trains.empty() || trains[virtual_stage];
  }
};

/// Features of the last virtual stage of one module enter the first of another; each replica that
/// takes them may need those of every replica that gives them.
struct PipelineEdge {
  int from = 0;  // index of the module
  int to = 0;
};

/// What is scheduled: encoders in front of a backbone, one round of microbatches after another.
struct Pipeline {
  std::vector<PipelineModule> modules;
  std::vector<PipelineEdge> edges;
  int microbatches = 1;  // of each replica of each module
  Nanoseconds hop = {};  // from a stage to its neighbour, for orders made to measure
};

/// The ranks that run one list: they share a stage of a replica.
struct Lane {
  int module = 0;
  int replica = 0;
  int stage = 0;

  friend bool operator==(const Lane&, const Lane&) = default;
};

/// Where everything of a pipeline lies: lanes in the order of modules, replicas and stages.
///
/// owns: a copy of nothing; the pipeline must outlive it
class PipelineMap {
 public:
  /// errors: Fault::kInput when the modules do not make a pipeline: no module, an impossible size,
  ///         an edge to nowhere, a module that feeds none but is not the last one, a cycle; a
  ///         colocated module that is cut, feeds another than the last one alone, or is not the
  ///         only one
  explicit PipelineMap(const Pipeline& pipeline);

  [[nodiscard]] int lanes() const { return lanes_; }
  [[nodiscard]] int lane_of(const Lane& lane) const;
  [[nodiscard]] Lane at(int lane) const;
  [[nodiscard]] std::string describe(int lane) const;  // `vision replica 0 stage 1`
  /// The other lanes of a lane's ranks, ascending: where one module is colocated with another. The
  /// ranks of both are in the order of stages and replicas.
  [[nodiscard]] std::vector<int> lanes_beside(int lane) const;
  /// The colocated module; -1: there is none.
  [[nodiscard]] int colocated() const { return colocated_; }
  /// A lane of it, whose ranks have a lane of the backbone too.
  [[nodiscard]] bool is_colocated(int lane) const {
    return colocated_ >= 0 && at(lane).module == colocated_;
  }
  /// Features of a colocated module and their gradients: none is used before all are there, those
  /// of every microbatch from every replica, so that one lane of a rank is done before the other
  /// begins.
  [[nodiscard]] bool goes_in_one_batch(int edge) const {
    return edge >= 0 && pipeline_.modules[pipeline_.edges[edge].from].is_colocated();
  }

  [[nodiscard]] int virtual_stage(int module, int stage, int chunk) const;
  struct Position {
    int stage;
    int chunk;
  };
  [[nodiscard]] Position position_of(int module, int virtual_stage) const;

  /// Something at or before the virtual stage trains, so that gradients come through it.
  [[nodiscard]] bool has_backward(int module, int virtual_stage) const;
  /// Edges into and out of a module, ascending.
  [[nodiscard]] const std::vector<int>& edges_into(int module) const { return into_[module]; }
  [[nodiscard]] const std::vector<int>& edges_from(int module) const { return from_[module]; }
  /// The modules, each before those that it feeds; of equals the first.
  [[nodiscard]] const std::vector<int>& flow() const { return flow_; }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }

 private:
  void check_modules() const;
  void check_colocated();
  void order_modules();
  void find_backwards();

  const Pipeline& pipeline_;
  int lanes_ = 0;
  int colocated_ = -1;
  std::vector<int> first_lane_;              // [modules]
  std::vector<std::vector<int>> into_;       // [modules] edges
  std::vector<std::vector<int>> from_;       // [modules] edges
  std::vector<int> flow_;                    // [modules]
  std::vector<std::vector<bool>> backward_;  // [modules][virtual stages]
};

/// An ordered list for every lane, and what it promises.
struct Schedule {
  Pipeline pipeline;
  std::vector<ActionList> lists;  // [lanes]
  std::vector<int> in_flight;     // [lanes] most chunk activations ever kept
};

/// Lists the passes of every lane. The backbone follows its order; a module in front of it runs
/// ahead as far as the backbone needs (1f1b, or zb_h1 with the backward split), and one without
/// anything to differentiate runs forwards alone. A colocated module runs all forwards before the
/// backbone's first pass and all backwards after its last. Passes that frozen layers do not need
/// are left out.
///
/// errors: Fault::kInput when an order cannot be made for its module, or puts weight gradients off
///         until a colocated module goes back on the same ranks
/// source: docs/theory/parallelism.md, "Orders of passes"
[[nodiscard]] Schedule schedule_passes(const Pipeline& pipeline);

}  // namespace tributary::schedule
