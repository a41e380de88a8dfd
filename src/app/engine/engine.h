#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/chat_model.h"
#include "config/run/adapter.h"
#include "config/run/run_config.h"
#include "core/exit_code.h"
#include "core/units.h"
#include "data/loader/data_size.h"

namespace tributary::app {

struct TrainOptions {
  std::string program = "tributary";          // the words to type before the verb
  std::string config;                         // YAML file
  std::vector<std::string> overrides;         // key.path=value
  std::string resume;                         // empty, `auto` or a checkpoint directory
  std::string fallback;                       // empty or `previous`
  std::vector<std::string> accepted_changes;  // keys of the run's identity that may differ
  bool allow_nonfinite = false;
  bool dry_run = false;        // only say what the run would be
  std::int64_t dry_ranks = 1;  // of the job that is looked at
  double dry_memory_gib = 0;   // of each of its ranks; 0: not judged
};

struct EncoderOptions {
  std::string config;                   // YAML file
  std::vector<std::string> overrides;   // key.path=value
  std::int64_t patience_seconds = 600;  // to wait for a run
};

struct ForwardOptions {
  std::string model;    // Hugging Face directory
  std::string inputs;   // safetensors
  std::string output;   // safetensors
  std::string adapter;  // directory of a PEFT adapter over the model; empty: none
  bool gradients = false;
  std::string mrope = "hf5";  // how positions are derived where the inputs have none: hf5, official
  std::string device = "cpu";  // as run.device
};

struct EvaluateOptions {
  std::string model;                    // Hugging Face directory, run or checkpoint
  config::SourceSection data;           // how to read the records
  std::string output;                   // JSONL: one record a line
  std::string summary;                  // JSON: the metrics
  std::vector<std::string> metrics;     // names of config::kAnswerScores
  std::optional<std::string> system;    // empty: no system turn; null: that of the run
  std::int64_t limit = 0;               // records, the first ones; 0: all
  std::int64_t max_new_tokens = 0;      // 0: by the longest reference
  std::int64_t capacity_tokens = 4096;  // of prompts that are answered together, on each rank
  bool blind = false;                   // also answer with the pixels set to zero
  double temperature = 0;               // 0: greedy
  double top_p = 1;
  std::uint64_t seed = 0;
  std::string device = "cpu";  // as run.device
  // Ranks that share one copy of the model, as parallel.pp, dp_shard and tp; the others copy it.
  std::int64_t pp = 1;
  std::int64_t dp_shard = 1;
  std::int64_t tp = 1;
};

struct ProfileOptions {
  std::string config;                  // YAML file
  std::vector<std::string> overrides;  // key.path=value
  std::string output;                  // profile.json
  std::int64_t fewest = 0;  // also measure with fewer of the job's ranks, down to this; 0: only all
};

struct CheckpointOptions {
  std::string checkpoint;  // step directory, or a run, which means its newest
  std::string model;       // for export: directory with config.json; empty: the run's
  std::string output;      // for export
  bool averaged = false;   // for export: the averages of optimizer.ema_decay
  bool merged = false;     // for export: weights with the adapters added
  bool json = false;
};

/// Facts about the machine that only the engine library knows.
struct EngineFacts {
  std::string torch_version;
  std::string parallel_info;         // BLAS and vector instructions
  int threads = 0;                   // compute threads by default
  std::vector<std::string> devices;  // `cuda:0 NVIDIA H200, 139 GiB, sm_90`; empty without one
  std::string device_state;          // libraries found, or why there is no device
};

/// What a run would need that was only looked at.
struct ImaginedRun {
  std::int64_t parameters = 0;
  std::int64_t trained = 0;                 // of them, or of adapters beside them
  Bytes kept = {};                          // by the rank that needs most, whatever the batch
  Bytes kept_on_host = {};                  // the part of it that host memory keeps for a device
  Bytes activations = {};                   // of one full microbatch, an estimate
  std::optional<data::DataSize> data = {};  // null where the model's tokenizer is not there
};

/// A run with adapters, and the linear maps of its model.
struct AdaptedRun {
  config::RunConfig run;  // with what a PEFT adapter says, and modules without an adapter frozen
  std::vector<config::LinearMap> maps = {};
};

/// How a verb of several ranks ended on this one.
struct RankOutcome {
  ExitCode code = ExitCode::kDone;
  bool leads = true;                       // whether this is the rank that reports
  std::vector<ImaginedRun> imagined = {};  // the stages of a dry run
};

/// The verbs that need libtorch. The torch-free executable loads the library with this table when
/// it needs one.
struct Engine {
  RankOutcome (*train)(const TrainOptions&);
  ExitCode (*encoder)(const EncoderOptions&);
  ExitCode (*forward)(const ForwardOptions&);
  RankOutcome (*evaluate)(const EvaluateOptions&);
  std::unique_ptr<ChatModel> (*open_chat_model)(const ChatModelOptions&);
  ExitCode (*profile)(const ProfileOptions&);
  ExitCode (*inspect_checkpoint)(const CheckpointOptions&);
  ExitCode (*verify_checkpoint)(const CheckpointOptions&);
  ExitCode (*export_checkpoint)(const CheckpointOptions&);
  /// errors: Fault::kInput for a target that names no map of the model
  AdaptedRun (*resolve_adapters)(const config::RunConfig&);
  EngineFacts (*facts)();
};

/// Loads an engine where the run has adapters; a run without them comes back as it is.
///
/// errors: as Engine::resolve_adapters
[[nodiscard]] AdaptedRun with_adapters(const config::RunConfig& run);

enum class EngineKind { kCpu, kCuda };

/// Whether the CUDA engine was built. It is a separate library, which a CPU machine never loads.
[[nodiscard]] bool has_cuda_engine();

/// The engine that computes on a device: `cpu`, `cuda` or `cuda:N`, as run.device.
[[nodiscard]] EngineKind engine_for(const std::string& device);

/// Loads an engine library from the folder of the executable; one per process.
///
/// errors: Fault::kResource naming the library and why it does not load
[[nodiscard]] const Engine& load_engine(EngineKind kind = EngineKind::kCpu);

}  // namespace tributary::app
