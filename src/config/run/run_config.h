#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/pipeline_order.h"
#include "config/policies.h"
#include "config/recompute.h"
#include "core/units.h"

namespace tributary::config {

enum class Weights { kRandom, kPretrained, kCheckpoint };
enum class MropeMode { kOfficial, kHf5 };
enum class Decay { kConstant, kLinear, kCosine, kWarmupStableDecay };
enum class OnNonFinite { kSkip, kStop };
enum class ObjectiveKind { kNextToken, kDpo };
enum class PairLoss { kSigmoid, kIpo };
enum class AdapterKind { kNone, kLora, kDora };
enum class OptimizerKind { kAdamW, kMuon, kAdamW8bit };
enum class Bind { kAuto, kCores, kNone };
enum class Deterministic { kAuto, kYes, kNo };
enum class Collectives { kDevice, kHost };
enum class TooLong { kDrop, kRefuse, kTruncate };
enum class PoolOrder { kData, kArrival };
enum class WeighBy { kSamples, kTokens };
enum class DrillFault { kNone, kKill, kStop, kFail };
enum class DrillPlace { kForward, kBackward, kCollective, kAction, kOptimizer, kCheckpoint };

/// The advice of an out-of-memory error. A model that can never fit is refused before the start.
inline constexpr const char* kOutOfMemoryFix =
    "lower batch.capacity_tokens, set model.recompute, or train less of the model (model.freeze): "
    "the line `memory` at the start of a run says what is kept whatever the batch";

/// A part of a run, trained from the weights that the part before it ended with.
struct StageSection {
  std::string name = {};
  std::vector<std::string> set = {};  // key.path=value, as on the command line

  friend bool operator==(const StageSection&, const StageSection&) = default;
};

/// What happens where and how long.
struct RunSection {
  std::string name = "run";
  std::string dir;  // empty: runs/<name>
  std::int64_t steps = 1000;
  double epochs = 0;  // above 0: passes over the training records, in place of steps
  std::uint64_t seed = 0;
  int threads = 0;  // compute threads; 0: one per core
  std::string device = "cpu";
  Bind bind = Bind::kAuto;
  Deterministic deterministic = Deterministic::kAuto;  // kernels; auto: yes on the CPU, no on CUDA
  std::vector<StageSection> stages = {};

  friend bool operator==(const RunSection&, const RunSection&) = default;
};

/// Low-rank adapters beside frozen linear maps (config/adapter.h).
struct AdapterSection {
  AdapterKind kind = AdapterKind::kNone;
  std::int64_t rank = 8;
  double alpha = 8;                                   // the change is scaled by alpha / rank
  bool rslora = false;                                // by alpha / sqrt(rank) instead
  std::vector<std::string> targets = {"all-linear"};  // kAllLinear, ends of names, or patterns
  std::string path = {};  // a PEFT adapter that gives all of the above and the first values

  friend bool operator==(const AdapterSection&, const AdapterSection&) = default;
};

struct ModelSection {
  std::string path;  // directory with config.json, tokenizer.json and, if pretrained, safetensors
  Weights weights = Weights::kRandom;
  std::string checkpoint = {};  // a run or one of its checkpoints, with kCheckpoint
  Dtype dtype = Dtype::kFloat32;
  std::vector<std::string> freeze;  // names of known_modules (config/family)
  std::vector<ModuleRecompute> recompute;
  std::vector<std::string> offload;  // modules that run again from inputs in host memory
  MropeMode mrope = MropeMode::kOfficial;
  AdapterSection adapter = {};  // the section `adapter`

  [[nodiscard]] bool has_adapters() const { return adapter.kind != AdapterKind::kNone; }
  /// Also where only a directory is named, which says the kind.
  [[nodiscard]] bool asks_for_adapters() const { return has_adapters() || !adapter.path.empty(); }
  friend bool operator==(const ModelSection&, const ModelSection&) = default;
};

/// What is minimised: the cross entropy of answers, or a loss on pairs of answers.
struct ObjectiveSection {
  ObjectiveKind kind = ObjectiveKind::kNextToken;
  PairLoss loss = PairLoss::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;
  double sft_weight = 0;

  [[nodiscard]] bool compares_pairs() const { return kind == ObjectiveKind::kDpo; }
  friend bool operator==(const ObjectiveSection&, const ObjectiveSection&) = default;
};

/// One member of the mixture.
struct SourceSection {
  std::string name = {};
  std::string path = {};      // file or directory of records
  std::string held_out = {};  // likewise; empty: data.held_out_fraction of `path`
  std::string images = {};    // root folder of relative image paths; empty: the folder of `path`
  std::vector<std::string> roots = {};  // further folders that absolute image paths may lie in
  double weight = 1.0;
  std::int64_t start_step = 0;  // it joins the mixture at this step
  std::string format = "auto";  // form of the records; auto: by their keys
  std::string question = {};    // before the text of each picture, in forms without one

  friend bool operator==(const SourceSection&, const SourceSection&) = default;
};

struct DataSection {
  std::vector<SourceSection> sources;
  WeighBy weigh_by = WeighBy::kSamples;  // what the weights of the sources share out
  double held_out_fraction = 0.0;
  std::int64_t min_pixels = 56 * 56;
  std::int64_t max_pixels = 1280 * 28 * 28;
  std::int64_t max_tokens = 0;         // longest sample; 0: batch.capacity_tokens
  TooLong too_long = TooLong::kDrop;   // what becomes of samples above it
  std::string system_prompt = "auto";  // kFamilyPrompt
  bool train_on_newline = true;        // the "\n" after <|im_end|> counts in the loss
  int workers = 2;                     // decoding threads; never changes content or order
  int prefetch_batches = 2;
  double bad_fraction = 0.001;  // of the samples read; above it the run stops
  std::int64_t bad_at_least = 10;

  friend bool operator==(const DataSection&, const DataSection&) = default;
};

struct BatchSection {
  std::int64_t global_samples = 32;
  Tokens capacity_tokens = {4096};    // of one microbatch
  std::int64_t capacity_patches = 0;  // of a pass of an encoder apart, on one rank; 0: no limit
  Packing packing = Packing::kBestFitDecreasing;
  std::int64_t microbatches = 0;      // of each replica, with packing level
  Balance balance = Balance::kLpt2d;  // of samples over replicas
  std::string costs = {};             // a profile, by whose times they are balanced; empty: FLOPs
  bool correct_costs = false;         // by which they are balanced, from measured times

  friend bool operator==(const BatchSection&, const BatchSection&) = default;
};

/// Overrides for the parameters whose name matches; the first matching group counts.
struct ParameterGroupSection {
  std::string match;  // a known module or a name pattern with * and ?
  double learning_rate_scale = 1.0;
  double weight_decay = -1.0;  // below 0: optimizer.weight_decay

  friend bool operator==(const ParameterGroupSection&, const ParameterGroupSection&) = default;
};

struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // never on biases and norms unless a group says so
  double clip_norm = 1.0;     // 0: no clipping
  double momentum = 0.95;     // of muon
  double ema_decay = 0;       // of averaged weights; 0: there are none
  std::vector<ParameterGroupSection> groups;

  friend bool operator==(const OptimizerSection&, const OptimizerSection&) = default;
};

struct ScheduleSection {
  Decay decay = Decay::kCosine;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // of warmup_stable_decay
  double final_ratio = 0.0;      // last learning rate / peak

  friend bool operator==(const ScheduleSection&, const ScheduleSection&) = default;
};

/// Scores of answers beside exact match, from 0 to 1.
inline constexpr std::array<std::string_view, 4> kAnswerScores{"token_f1", "anls", "rouge_l",
                                                               "vqa_accuracy"};

struct ValidationSection {
  std::int64_t every = 0;  // steps; 0: at the end alone
  std::int64_t samples_per_source = 64;
  std::int64_t final_samples_per_source = 0;  // at the end; 0: all that is held out
  std::int64_t max_new_tokens = 0;            // of an answer; 0: by the longest held-out one
  std::int64_t stop_after = 0;                // validations without a gain; 0: never
  double min_gain = 0;                        // of the score above the best one
  std::vector<std::string> metrics;           // names of kAnswerScores, beside exact match
  bool blind = false;                         // also answer with the pixels zeroed, at the end

  friend bool operator==(const ValidationSection&, const ValidationSection&) = default;
};

struct CheckpointSection {
  std::int64_t every = 100;  // steps
  int keep_latest = 2;
  bool keep_best = true;  // and save after each validation
  bool async = true;

  friend bool operator==(const CheckpointSection&, const CheckpointSection&) = default;
};

struct MetricsSection {
  std::int64_t console_every = 10;
  bool tensorboard = true;
  std::int64_t update_norms_every = 10;  // steps; 0: never
  double peak_flops = 0;                 // FLOP/s of the device, for MFU; 0: measured at start

  friend bool operator==(const MetricsSection&, const MetricsSection&) = default;
};

struct StabilitySection {
  OnNonFinite on_non_finite = OnNonFinite::kSkip;
  int max_skips = 3;            // in a row
  int stop_grace_seconds = 30;  // from SIGTERM to the end of the process

  friend bool operator==(const StabilitySection&, const StabilitySection&) = default;
};

/// Ranks along one axis of the mesh, or `auto`: whatever the other axes leave of the world.
struct Degree {
  std::int64_t count = 1;  // 0: auto

  [[nodiscard]] bool is_auto() const { return count == 0; }
  friend bool operator==(const Degree&, const Degree&) = default;
};

/// Where a module in front of the backbone runs: the section `parallel.<module>`. An inline module
/// has the standard values; place_modules (config/run/module_places.h) turns others into ranks.
struct ModuleSection {
  std::string module = {};
  Placement placement = Placement::kInline;
  std::vector<std::int64_t> ranks = {};  // of a separate module; empty: behind the backbone's
  std::int64_t pp = 1;
  std::int64_t dp_replicate = 1;
  Degree dp_shard = {0};  // auto: what the ranks leave; 1 where none are given
  std::int64_t cp = 1;
  std::int64_t ulysses = 1;
  std::int64_t tp = 1;
  std::int64_t passes = 1;  // in which a colocated module takes its part of a batch
  bool turns = false;       // passes of a colocated module run among those of the backbone
  bool ahead = false;       // a frozen colocated module encodes for the step after
  FeatureMemory features = FeatureMemory::kDevice;  // of a colocated module, until they are used
  BesideStages stages = BesideStages::kAll;         // of the backbone, on whose ranks it lies

  friend bool operator==(const ModuleSection&, const ModuleSection&) = default;
};

/// A section for each encoder, ascending by name; all inline.
[[nodiscard]] std::vector<ModuleSection> inline_sections();

/// How the work is spread over ranks; the degrees are those of the backbone. resolve_mesh
/// (config/run/mesh_shape.h) turns it into a mesh.
struct ParallelSection {
  Degree dp_replicate = {};
  Degree dp_shard = {0};  // 1 when another axis is auto and the file does not set this one
  Degree cp = {};
  Degree ulysses = {};
  Degree tp = {};
  Degree pp = {};
  PipelineOrder schedule = PipelineOrder::k1f1b;
  std::int64_t vision_stages = 0;   // of the stages those that hold the vision tower alone
  std::string plan = {};            // file that decides placement instead of this section
  std::int64_t virtual_stages = 1;  // of a rank; orders that need more take theirs
  Degree ep = {};
  Shard shard = Shard::kParameters;
  Release release = Release::kAuto;
  std::int64_t prefetch = 1;  // units gathered ahead
  ReduceDtype reduce_dtype = ReduceDtype::kFloat32;
  Offload offload = Offload::kNone;
  bool ulysses_async = false;
  Collectives collectives = Collectives::kDevice;
  double collective_timeout_seconds = 60;
  double bootstrap_timeout_seconds = 120;
  double heartbeat_seconds = 1;
  double lost_after_seconds = 5;
  double setup_deadline_seconds = 600;      // also of validation
  double step_deadline_seconds = 0;         // 0: max(60, 8 x median of the last 20 steps)
  double checkpoint_deadline_seconds = 60;  // without progress of a save or a load
  std::vector<ModuleSection> modules = inline_sections();

  /// Whether a module runs in processes that are no ranks.
  [[nodiscard]] bool has_encoders_beside() const {
    return std::ranges::count(modules, Placement::kFlow, &ModuleSection::placement) > 0;
  }
  friend bool operator==(const ParallelSection&, const ParallelSection&) = default;
};

/// How features of modules with placement `flow` get from encoder processes to the run.
struct PoolSection {
  std::string directory = {};      // where encoders find the run; empty: `pool` in run.dir
  std::string bind = "127.0.0.1";  // address at which the processes reach each other
  std::int64_t encoders = 0;       // that have come before the first step
  std::int64_t min_encoders = 0;   // that a run may ask its launcher for
  std::int64_t max_encoders = 0;   // likewise; 0: it asks for none
  double window_seconds = 10;      // over which it measures how many it needs
  std::int64_t ahead = 2;          // steps that encoders may work on at a time
  double patience_seconds = 30;    // that a rank waits for features, before it encodes itself
  std::int64_t encoder_mib = 256;  // of features that an encoder process holds
  PoolOrder order = PoolOrder::kData;
  std::string replay = {};  // a plan log whose order is taken; empty: none

  std::vector<std::string> engines = {"memfd", "tcp"};  // that may move features

  std::string cache = {};       // directory of features on disk; empty: none
  std::int64_t cache_gib = 64;  // most of them

  /// Whether features may go from device to device.
  [[nodiscard]] bool joins_devices() const { return std::ranges::count(engines, "cuda") > 0; }
  friend bool operator==(const PoolSection&, const PoolSection&) = default;
};

/// A fault that strikes on purpose, to rehearse how a job recovers (train/start/drill.h).
struct DrillSection {
  DrillFault fault = DrillFault::kNone;
  std::int64_t rank = 0;
  std::int64_t step = 1;
  DrillPlace section = DrillPlace::kForward;
  std::int64_t action = 0;   // of the list of the step, with kAction
  double after_seconds = 0;  // that the rank rests in the section before

  friend bool operator==(const DrillSection&, const DrillSection&) = default;
};

/// One run, as its YAML file describes it; checked whole before anything is loaded.
struct RunConfig {
  RunSection run;
  ModelSection model;
  ObjectiveSection objective;
  DataSection data;
  BatchSection batch;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  ValidationSection validation;
  CheckpointSection checkpoint;
  MetricsSection metrics;
  StabilitySection stability;
  ParallelSection parallel;
  PoolSection pool;
  DrillSection drill;

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

}  // namespace tributary::config
