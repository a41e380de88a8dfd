#pragma once

#include <string>
#include <vector>

#include "config/module_graph.h"
#include "config/plan.h"
#include "plan/cost/collective_cost.h"
#include "plan/cost/layer_cost.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::plan {

/// What one microbatch of a replica is made of.
struct MicrobatchShape {
  PassShape backbone;  // tokens
  PassShape encoder;   // patches, or audio frames
};

/// One virtual stage on one rank, for one microbatch. The exposed parts are communication that its
/// compute does not hide, and come on top.
struct StageCost {
  Nanoseconds forward = {};
  Nanoseconds input_gradient = {};  // with what is recomputed
  Nanoseconds weight_gradient = {};
  Nanoseconds forward_exposed = {};
  Nanoseconds gradient_exposed = {};
  Bytes kept = {};                       // of activations from F to BW, or from F to B
  Bytes kept_after_input_gradient = {};  // from B to W
  Bytes backward_peak = {};              // more, while BW or B runs
  Bytes boundary = {};                   // sent on by each rank
  double flops = 0;  // forward, backward and weight gradients; all ranks, causal
  bool outside_grid = false;
};

/// What a virtual stage holds on each rank, whatever the microbatch.
struct StageState {
  Bytes parameters = {};
  Bytes gradients = {};
  Bytes optimizer = {};
  Bytes gathered = {};  // sharded parameters that are whole meanwhile
  Nanoseconds reduction = {};
  Nanoseconds optimizer_step = {};
};

/// Costs of the virtual stages of a pipeline: an interface, so that searches and tests bring tables
/// of their own.
class StageCosts {
 public:
  virtual ~StageCosts() = default;
  [[nodiscard]] virtual StageCost cost(int module, int virtual_stage,
                                       const MicrobatchShape& shape) const = 0;
  [[nodiscard]] virtual StageState state(int module, int virtual_stage) const = 0;
};

/// How layers run, where the plan does not say.
struct LayerExecution {
  AttentionCore attention = AttentionCore::kFused;
  bool sequence_parallel = true;  // with tp: what lies between the products is cut too
};

/// Costs by the layers of a model: rooflines on the cluster's device, and its collectives.
///
/// owns:   copies of all it is given
/// source: planning.md sections 2 and 12; parallelism.md section 6.10
class LayerStageCosts final : public StageCosts {
 public:
  /// errors: Fault::kInput naming module and key when plan and model do not fit each other
  LayerStageCosts(const config::Plan& plan, const config::ModuleGraph& model,
                  const config::Cluster& cluster, const schedule::Pipeline& pipeline,
                  const LayerExecution& execution = {});
  [[nodiscard]] StageCost cost(int module, int virtual_stage,
                               const MicrobatchShape& shape) const override;
  [[nodiscard]] StageState state(int module, int virtual_stage) const override;

 private:
  /// Equal layers on a virtual stage.
  struct Run {
    config::LayerShape shape;
    std::int64_t layers = 1;
    bool is_backbone = true;  // works on tokens, not on patches
    Training training;
    bool needs_input_grad_after_first = false;
    config::RecomputePlan recompute = config::RecomputePlan::kNone;
  };
  struct Stage {
    std::vector<Run> runs;
    config::MeshShape mesh;
  };

  void place_layers(const config::Plan& plan, const config::ModuleGraph& model,
                    const schedule::Pipeline& pipeline);
  void place_module(const config::ModulePlan& of, const config::ModuleNode& node,
                    std::vector<Stage>& stages, bool is_inline);
  void find_training(const schedule::Pipeline& pipeline);
  void add_run(StageCost& cost, const Stage& stage, const Run& run,
               const MicrobatchShape& shape) const;
  [[nodiscard]] Nanoseconds collective(config::CollectiveOp op, std::int64_t ranks,
                                       std::int64_t stride, Bytes bytes) const;

  [[nodiscard]] LayerPlacement placement_of(const config::MeshShape& mesh) const;

  config::Cluster cluster_;
  LayerExecution execution_;
  std::vector<std::vector<Stage>> stages_;  // [modules of the pipeline][virtual stages]
};

}  // namespace tributary::plan
