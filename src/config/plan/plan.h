#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/family/model_config.h"
#include "config/pipeline_order.h"
#include "config/policies.h"
#include "config/recompute.h"
#include "config/run/mesh_shape.h"
#include "config/run/run_config.h"
#include "core/error.h"
#include "core/units.h"

namespace tributary::config {

enum class TrainMode { kFull, kLora, kFrozen };
enum class EdgeVia { kExchange, kPool };

/// The consecutive layers of one virtual stage: embedding, layers, head, at least one of them.
struct StageLayers {
  bool embed = false;
  std::int64_t first = 0;   // layer, from 0 over the whole module
  std::int64_t layers = 0;  // [count]
  bool head = false;

  [[nodiscard]] bool empty() const { return !embed && layers == 0 && !head; }
  friend bool operator==(const StageLayers&, const StageLayers&) = default;
};

/// Where and how one module runs. Virtual stage v lies on pp coordinate v mod pp; in the V-shaped
/// orders, virtual stages go forth and back over the coordinates.
struct ModulePlan {
  std::string name = {};
  Placement placement = Placement::kSeparate;
  std::vector<std::int64_t> ranks = {};  // ascending; empty: those of the backbone (inline)
  MeshShape mesh = {};
  std::vector<StageLayers> stages = {};  // [virtual stages]; empty: all layers on one
  PipelineOrder schedule = PipelineOrder::k1f1b;
  RecomputePlan recompute = RecomputePlan::kNone;
  std::int64_t recompute_every = 1;  // of layers whose number in the module it divides
  Offload offload = Offload::kNone;
  TrainMode train = TrainMode::kFull;
  std::int64_t share_percent = 100;  // of the device's SMs; below 100 when sliced
  std::int64_t passes =
      1;               // number of passes in which a colocated module takes its part of a batch
  bool turns = false;  // of a colocated module: its passes run among those of the backbone
  bool ahead = false;  // of a frozen colocated module: it encodes for the step after
  FeatureMemory features = FeatureMemory::kDevice;  // of a colocated module, until they are used

  friend bool operator==(const ModulePlan&, const ModulePlan&) = default;
};

struct EdgePlan {
  std::string from;
  std::string to;
  EdgeVia via = EdgeVia::kExchange;

  friend bool operator==(const EdgePlan&, const EdgePlan&) = default;
};

struct BatchPlan {
  std::int64_t global_samples = 1;
  std::int64_t microbatches = 1;  // of each replica of the backbone in a step
  Tokens capacity_tokens = {4096};
  Packing packing = Packing::kBestFitDecreasing;
  Balance balance = Balance::kNone;

  friend bool operator==(const BatchPlan&, const BatchPlan&) = default;
};

/// The samples that a plan was simulated with; recorded sizes are not kept with the plan.
enum class PlannedSamples { kUnknown, kEqual, kMixture, kRecorded };

/// The planner's prediction; all 0 and empty when no planner wrote the plan.
struct PredictedPlan {
  Nanoseconds step = {};
  Nanoseconds lower_bound = {};
  std::vector<std::pair<std::string, Bytes>> peak_bytes = {};  // by module
  PlannedSamples samples = PlannedSamples::kUnknown;
  Tokens sample_tokens = {};  // of each sample where they are equal

  friend bool operator==(const PredictedPlan&, const PredictedPlan&) = default;
};

/// The adapters of a run; a module has them where its plan says `lora`.
struct AdapterPlan {
  AdapterKind kind = AdapterKind::kNone;
  std::int64_t rank = 0;
  std::vector<std::string> targets = {};  // as adapter.targets

  friend bool operator==(const AdapterPlan&, const AdapterPlan&) = default;
};

/// What a run trains with. It decides no placement, but memory and times.
struct TrainingPlan {
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  bool averages = false;  // keeps averaged weights: optimizer.ema_decay
  AdapterPlan adapter = {};

  friend bool operator==(const TrainingPlan&, const TrainingPlan&) = default;
};

/// All that decides placement: docs/formats/plan.md.
struct Plan {
  std::vector<ModulePlan> modules;  // ascending by name
  std::vector<EdgePlan> edges;
  BatchPlan batch;
  PredictedPlan predicted;
  TrainingPlan training = {};
  std::string model = {};  // directory of a config.json, or a module graph; from the plan's folder

  /// Null when there is no module of that name.
  [[nodiscard]] const ModulePlan* find(std::string_view name) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

[[nodiscard]] TrainingPlan training_of(const RunConfig& run);
/// What a plan says of adapters and frozen modules, as a run has it.
[[nodiscard]] ModelSection section_of(const Plan& plan);
/// `lora, rank 8, on q_proj, v_proj; frozen vision`: what times of layers depend on, as a profile
/// says it. Empty without adapters.
[[nodiscard]] std::string adapter_key(const ModelSection& section);

inline constexpr std::string_view kPlanFormat = "tributary.plan/1";

/// errors: Fault::kInput that lists everything wrong by file and key path, unknown keys with the
///         nearest known one
[[nodiscard]] Plan parse_plan(std::string_view text, const std::string& where);
[[nodiscard]] Plan read_plan(const std::string& path);

/// JSON that reads back to the same plan.
[[nodiscard]] std::string write_plan(const Plan& plan);

/// A digest, 16 digits, of what a plan decides. It does not depend on the prediction, on the path
/// of the model, on what the run trains with, or on whether a module that is not cut lists its
/// layers.
[[nodiscard]] std::string plan_digest(Plan plan);

/// Checks the rules between keys.
///
/// errors: Fault::kInput that lists every rule that is broken
void check_plan(const Plan& plan, const std::string& where);

/// Checks that the plan has the modules of the model, with its edges, and names its layers, each
/// once.
///
/// errors: Fault::kInput as check_plan
void check_plan_of_model(const Plan& plan, const ModelConfig& model, const std::string& where);

/// The short form of a pipeline.
struct PipelineSection {
  PipelineOrder schedule = PipelineOrder::k1f1b;
  std::int64_t microbatches = 1;
  std::int64_t vision_stages = 0;   // stages of pp that hold only the vision tower
  std::int64_t virtual_stages = 1;  // of a rank; the V-shaped orders always take 2
  std::vector<std::int64_t> layers_per_stage =
      {};  // [pp * virtual stages]; empty: as even as possible
};

/// Expands a run's `parallel` section. The backbone has `mesh`, as resolve_mesh returns it, with
/// the embedding first and the head last; an encoder is inside its first stage, or where its
/// section `parallel.<module>` places it, with its layers cut evenly into stages. Projectors are
/// inline.
///
/// errors: Fault::kInput as check_plan and place_modules, or when layers_per_stage do not add up to
///         the model
[[nodiscard]] Plan expand_plan(const MeshShape& mesh, const PipelineSection& pipeline,
                               const RunConfig& run, const ModelConfig& model);

/// Replaces degrees, stages, schedule, recompute, offload, frozen modules and batch of a
/// configuration by those of the plan in `parallel.plan`. Changes nothing when there is no plan.
///
/// errors: Fault::kInput as read_plan, or listing all that the trainer cannot run
[[nodiscard]] RunConfig apply_plan(RunConfig config);
/// As above, for a plan that was read already; `where` names it in messages.
[[nodiscard]] RunConfig apply_plan(const Plan& plan, const std::string& where, RunConfig config);

/// Lists the parts of a plan that the trainer cannot run, each with its key path, whatever the
/// model; apply_plan refuses a plan that has some. Only a run with adapters trains `lora`.
[[nodiscard]] std::vector<ErrorParts> trainer_limits(const Plan& plan, const std::string& where,
                                                     bool has_adapters = false);

/// Checks that `train` runs a plan of a model with a run configuration: what the trainer can do,
/// the keys beside the plan, degrees that divide the model, and its modules, edges and layers. The
/// one place that says so: the trainer asks it of every run, the planner of every plan.
///
/// errors: Fault::kInput that says what is refused
void check_trains(const Plan& plan, const std::string& where, const RunConfig& run,
                  const ModelConfig& model);

/// How many virtual stages of a rank an order takes: 1, 2, or 0 for two or more.
[[nodiscard]] std::int64_t virtual_stages_of(PipelineOrder order);

}  // namespace tributary::config
