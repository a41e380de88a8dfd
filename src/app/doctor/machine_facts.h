#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/engine.h"

namespace tributary::app {

/// What was built.
struct BuildFacts {
  std::string version;
  std::string commit;
  std::string preset;  // the name of the build folder
  std::string compiler;
  std::string libraries;  // names and versions, as built
  bool has_cuda_engine = false;
};

/// What `doctor` looks at; judge_machine says what follows from it.
struct MachineFacts {
  BuildFacts build;
  std::string system;
  std::string cpu;
  bool cpu_has_bf16 = false;
  int cores = 0;
  int usable_cores = 0;                        // that this process may run on
  double load = 0;                             // of the last minute: programs that want a core
  std::optional<std::string> omp_num_threads;  // the environment variable
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_memory_bytes = 0;
  std::uint64_t usable_memory_bytes = 0;  // of one process, by what limits it most
  std::string tightest_memory;            // which is this; empty: the machine alone
  std::string folder;                     // the current one
  bool folder_is_writable = false;
  std::uint64_t free_disk_bytes = 0;           // there
  std::uint64_t free_shared_memory_bytes = 0;  // of /dev/shm; 0 without it
  std::uint64_t open_files = 0;                // soft limit
  std::uint64_t most_open_files = 0;           // hard limit
  bool has_nvidia_driver = false;
  bool has_tensorboard = false;  // the program that shows event files
  std::optional<EngineFacts> engine;
  std::string engine_failure;  // why it does not load
};

/// Looks at this build and machine; loads an engine, that of CUDA only where a driver is.
[[nodiscard]] MachineFacts examine_machine();

/// Something that is wrong or will not work.
struct Finding {
  enum class Kind {
    kProblem,  // what runs on every sound machine fails or crawls here
    kLimit,    // one thing does not work; the rest does
  };
  Kind kind = Kind::kLimit;
  std::string topic;
  std::string reason;
  std::string fix;  // may be empty
};

/// Problems first. A pure function of the facts.
[[nodiscard]] std::vector<Finding> judge_machine(const MachineFacts& facts);

}  // namespace tributary::app
