#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"
#include "cost/cost_source.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::cost {

/// The medium of an encoder and of the modules between it and the backbone.
enum class Media { kPatches, kFrames };  // frames: positions of sound after the convolutions
inline constexpr std::array kAllMedia = {Media::kPatches, Media::kFrames};

/// The contents of one microbatch of a replica.
struct MicrobatchShape {
  PassShape backbone;  // tokens
  PassShape encoder;   // patches; positions of sound in a model without images
  PassShape audio = {.tokens = 0, .squared_tokens = 0, .sequences = 0};  // of sound, beside images

  [[nodiscard]] const PassShape& of(Media media) const {
    return media == Media::kPatches ? encoder : audio;
  }
  [[nodiscard]] PassShape& of(Media media) { return media == Media::kPatches ? encoder : audio; }
  friend bool operator==(const MicrobatchShape&, const MicrobatchShape&) = default;
};

/// One virtual stage on one rank, for one microbatch. The exposed parts are communication that
/// compute does not hide; they are added to the passes.
struct StageCost {
  Nanoseconds forward = {};
  Nanoseconds input_gradient = {};  // with recompute
  Nanoseconds weight_gradient = {};
  Nanoseconds forward_exposed = {};
  Nanoseconds gradient_exposed = {};
  Bytes kept = {};                       // activations, from F to BW or from F to B
  Bytes kept_after_input_gradient = {};  // from B to W
  Bytes forward_peak = {};               // on top, while F runs
  Bytes backward_peak = {};              // on top, while BW or B runs
  Bytes boundary = {};                   // sent to the next stage by each rank
  bool outside_grid = false;
};

/// What a virtual stage holds on each rank, whatever the microbatch.
struct StageState {
  Bytes parameters = {};
  Bytes gradients = {};
  Bytes optimizer = {};
  Bytes gathered = {};         // whole values and gradients of sharded layers, while they exist
  Nanoseconds reduction = {};  // of gradients, once a step after the last backward
  Nanoseconds optimizer_step = {};  // with the gather of values that then stay whole
  Nanoseconds host_step = {};       // once on each rank, whatever it holds
  Bytes process = {};               // likewise
};

/// FLOPs of a virtual stage on one microbatch, all ranks of a replica.
struct StageFlops {
  TrainingFlops all = {};
  TrainingFlops frozen = {};  // the part in modules that do not train

  StageFlops& operator+=(const StageFlops& other) {
    all += other.all;
    frozen += other.frozen;
    return *this;
  }
  friend StageFlops operator*(const StageFlops& flops, double times) {
    return {flops.all * times, flops.frozen * times};
  }
};

/// The number of ranks of a module.
struct ModuleRanks {
  std::int64_t replicas = 0;  // in the plan; 0: as many as are simulated
  std::int64_t of_lane = 1;   // ranks that share one list
};

/// Costs of the virtual stages of a pipeline. It is an interface, so that searches and tests can
/// bring tables of their own.
class StageCosts {
 public:
  virtual ~StageCosts() = default;
  [[nodiscard]] virtual StageCost cost(int module, int virtual_stage,
                                       const MicrobatchShape& shape) const = 0;
  [[nodiscard]] virtual StageState state(int module, int virtual_stage) const = 0;
  /// FLOPs; 0 where they are unknown.
  [[nodiscard]] virtual StageFlops flops(int /*module*/, int /*virtual_stage*/,
                                         const MicrobatchShape& /*shape*/) const {
    return {};
  }
  [[nodiscard]] virtual ModuleRanks ranks(int /*module*/) const { return {}; }
  /// Whether layers of a module work on a medium; the backbone includes its inline encoders.
  [[nodiscard]] virtual bool works_on(int /*module*/, Media media) const {
    return media == Media::kPatches;
  }
  /// The medium of an encoder that is not inline.
  [[nodiscard]] Media media(int module) const {
    return works_on(module, Media::kFrames) ? Media::kFrames : Media::kPatches;
  }
};

/// How layers run where the plan does not say; the defaults are the trainer's.
struct LayerExecution {
  AttentionCore attention = AttentionCore::kFused;
  bool sequence_parallel = true;  // with tp: activations between products are cut too
  config::Shard shard = config::Shard::kParameters;
  config::Release release = config::Release::kAuto;
  config::ReduceDtype reduce_dtype = config::ReduceDtype::kFloat32;
  /// Prices virtual stages one by one, each as if on a pp coordinate of its own, for searches that
  /// combine them later.
  bool apart = false;
};

/// Costs by the layers of a model, from a source: by default the cluster's device and links.
///
/// owns:   copies of all it is given; the source with others
/// source: docs/theory/planning.md, "Times of a stage" and "Collectives";
///         docs/theory/parallelism.md, "Splitting B and W"
class LayerStageCosts final : public StageCosts {
 public:
  /// errors: Fault::kInput naming module and key when plan and model do not fit each other, or when
  ///         the plan needs costs that are unknown
  LayerStageCosts(const config::Plan& plan, const config::ModuleGraph& model,
                  const config::Cluster& cluster, const schedule::Pipeline& pipeline,
                  const LayerExecution& execution = {});
  /// With a source, the cluster only says which ranks are near each other.
  LayerStageCosts(const config::Plan& plan, const config::ModuleGraph& model,
                  const config::Cluster& cluster, std::shared_ptr<const CostSource> source,
                  const schedule::Pipeline& pipeline, const LayerExecution& execution = {});
  [[nodiscard]] StageCost cost(int module, int virtual_stage,
                               const MicrobatchShape& shape) const override;
  [[nodiscard]] StageState state(int module, int virtual_stage) const override;
  [[nodiscard]] StageFlops flops(int module, int virtual_stage,
                                 const MicrobatchShape& shape) const override;
  [[nodiscard]] ModuleRanks ranks(int module) const override;
  [[nodiscard]] bool works_on(int module, Media media) const override;

 private:
  struct Placed;
  std::shared_ptr<const Placed> placed_;
};

}  // namespace tributary::cost
