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

/// What an encoder, and what follows it in front of the backbone, works on.
enum class Media { kPatches, kFrames };  // frames of sound: positions behind its convolutions
inline constexpr std::array kAllMedia = {Media::kPatches, Media::kFrames};

/// What one microbatch of a replica is made of.
struct MicrobatchShape {
  PassShape backbone;  // tokens
  PassShape encoder;   // patches; positions of sound where a model encodes nothing else
  PassShape audio = {.tokens = 0, .squared_tokens = 0, .sequences = 0};  // beside images

  [[nodiscard]] const PassShape& of(Media media) const {
    return media == Media::kPatches ? encoder : audio;
  }
  [[nodiscard]] PassShape& of(Media media) { return media == Media::kPatches ? encoder : audio; }
  friend bool operator==(const MicrobatchShape&, const MicrobatchShape&) = default;
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
  Bytes forward_peak = {};               // more, while F runs
  Bytes backward_peak = {};              // more, while BW or B runs
  Bytes boundary = {};                   // sent on by each rank
  bool outside_grid = false;
};

/// What a virtual stage holds on each rank, whatever the microbatch.
struct StageState {
  Bytes parameters = {};
  Bytes gradients = {};
  Bytes optimizer = {};
  Bytes gathered = {};         // of sharded layers: values and gradients that are whole meanwhile
  Nanoseconds reduction = {};  // of gradients, once a step, after the last backward
  Nanoseconds optimizer_step = {};  // with gathering what then stays whole
  Nanoseconds host_step = {};       // of each rank, whatever it holds
  Bytes process = {};               // likewise
};

/// FLOPs of a virtual stage on one microbatch, all ranks of a replica.
struct StageFlops {
  TrainingFlops all = {};
  TrainingFlops frozen = {};  // the share of modules that do not train

  StageFlops& operator+=(const StageFlops& other) {
    all += other.all;
    frozen += other.frozen;
    return *this;
  }
  friend StageFlops operator*(const StageFlops& flops, double times) {
    return {flops.all * times, flops.frozen * times};
  }
};

/// How many ranks work on a module.
struct ModuleRanks {
  std::int64_t replicas = 0;  // in the plan; 0: as many as are simulated
  std::int64_t of_lane = 1;   // that share one list
};

/// Costs of the virtual stages of a pipeline: an interface, so that searches and tests bring tables
/// of their own.
class StageCosts {
 public:
  virtual ~StageCosts() = default;
  [[nodiscard]] virtual StageCost cost(int module, int virtual_stage,
                                       const MicrobatchShape& shape) const = 0;
  [[nodiscard]] virtual StageState state(int module, int virtual_stage) const = 0;
  /// 0 where they are not known.
  [[nodiscard]] virtual StageFlops flops(int /*module*/, int /*virtual_stage*/,
                                         const MicrobatchShape& /*shape*/) const {
    return {};
  }
  [[nodiscard]] virtual ModuleRanks ranks(int /*module*/) const { return {}; }
  /// Whether layers of a module work on a medium: of the backbone those of inline encoders.
  [[nodiscard]] virtual bool works_on(int /*module*/, Media media) const {
    return media == Media::kPatches;
  }
  /// Of an encoder that is not inline.
  [[nodiscard]] Media media(int module) const {
    return works_on(module, Media::kFrames) ? Media::kFrames : Media::kPatches;
  }
};

/// How layers run, where the plan does not say: the defaults are the trainer's.
struct LayerExecution {
  AttentionCore attention = AttentionCore::kFused;
  bool sequence_parallel = true;  // with tp: what lies between the products is cut too
  config::Shard shard = config::Shard::kParameters;
  config::Release release = config::Release::kAuto;
  config::ReduceDtype reduce_dtype = config::ReduceDtype::kFloat32;
  /// Prices virtual stages one by one, each as if on a pp coordinate of its own: for searches that
  /// put them together later.
  bool apart = false;
};

/// Costs by the layers of a model, each as a source says: by default the cluster's device and
/// links.
///
/// owns:   copies of all it is given; the source with others
/// source: docs/theory/planning.md, "Times of a stage" and "Collectives";
///         docs/theory/parallelism.md, "Splitting B and W"
class LayerStageCosts final : public StageCosts {
 public:
  /// errors: Fault::kInput naming module and key when plan and model do not fit each other, or when
  ///         the plan asks for what has no costs
  LayerStageCosts(const config::Plan& plan, const config::ModuleGraph& model,
                  const config::Cluster& cluster, const schedule::Pipeline& pipeline,
                  const LayerExecution& execution = {});
  /// The cluster then says only which ranks are near each other.
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
