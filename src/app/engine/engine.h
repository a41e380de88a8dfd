#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/exit_code.h"

namespace tributary::app {

/// What helps once memory has run out; a model that cannot fit at all is refused before the start.
inline constexpr const char* kOutOfMemoryFix =
    "lower batch.capacity_tokens, set model.recompute, or train less of the model (model.freeze): "
    "the line `memory` at the start of a run says what is kept whatever the batch";

struct TrainOptions {
  std::string program = "tributary";          // what to type before the verb
  std::string config;                         // YAML file
  std::vector<std::string> overrides;         // key.path=value
  std::string resume;                         // empty, `auto` or a checkpoint directory
  std::string fallback;                       // empty or `previous`
  std::vector<std::string> accepted_changes;  // keys of the run's identity
  bool allow_nonfinite = false;
};

struct ForwardOptions {
  std::string model;   // Hugging Face directory
  std::string inputs;  // safetensors
  std::string output;  // safetensors
  bool gradients = false;
  std::string mrope = "hf5";  // position mode where positions are derived: hf5, official
};

struct GenerateOptions {
  std::string model;  // Hugging Face directory or run directory
  std::vector<std::string> images;
  std::string prompt;
  std::optional<std::string> system;  // empty text: no system turn; none: what the run trained with
  std::int64_t max_new_tokens = 64;
  double temperature = 0;  // 0: greedy
  double top_p = 1;
  std::int64_t seed = 0;
};

struct ProfileOptions {
  std::string config;                  // YAML file
  std::vector<std::string> overrides;  // key.path=value
  std::string output;                  // profile.json
  std::int64_t fewest = 0;             // processes at work of those of a job; 0: all
};

struct CheckpointOptions {
  std::string checkpoint;  // step directory, or a run: its newest
  std::string model;       // of export: directory with config.json; empty: the run's own
  std::string output;      // of export
  bool json = false;
};

/// What the engine library can say about the machine.
struct EngineFacts {
  std::string torch_version;
  std::string parallel_info;         // BLAS and vector instructions
  int threads = 0;                   // compute threads by default
  std::vector<std::string> devices;  // `cuda:0 NVIDIA H200, 139 GiB, sm_90`; empty without one
  std::string device_state;          // libraries found, or why there is no device
};

struct TrainOutcome {
  ExitCode code = ExitCode::kDone;
  bool leads = true;  // the one rank that writes the report
};

/// The verbs that need libtorch. The executable itself is torch-free and loads this when needed.
struct Engine {
  TrainOutcome (*train)(const TrainOptions&);
  ExitCode (*forward)(const ForwardOptions&);
  ExitCode (*generate)(const GenerateOptions&);
  ExitCode (*profile)(const ProfileOptions&);
  ExitCode (*inspect_checkpoint)(const CheckpointOptions&);
  ExitCode (*verify_checkpoint)(const CheckpointOptions&);
  ExitCode (*export_checkpoint)(const CheckpointOptions&);
  EngineFacts (*facts)();
};

enum class EngineKind { kCpu, kCuda };

/// Whether the CUDA engine was built; it is a library of its own, never loaded on a CPU machine.
[[nodiscard]] bool has_cuda_engine();

/// Loads an engine library from beside the executable; one a process.
///
/// errors: Fault::kResource naming the library and why it does not load
[[nodiscard]] const Engine& load_engine(EngineKind kind = EngineKind::kCpu);

}  // namespace tributary::app
