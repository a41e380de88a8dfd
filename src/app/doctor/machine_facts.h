#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/engine.h"

namespace tributary::app {

/// Facts about this build.
struct BuildFacts {
  std::string version;
  std::string commit;
  std::string preset;  // the name of the build folder
  std::string compiler;
  std::string libraries;  // names and versions at build time
  bool has_cuda_engine = false;
};

/// The facts that `doctor` collects; judge_machine draws conclusions from them.
struct MachineFacts {
  BuildFacts build;
  std::string system;
  std::string cpu;
  bool cpu_has_bf16 = false;
  int cores = 0;
  int usable_cores = 0;  // cores that this process may run on
  double load = 0;       // mean number of runnable programs in the last minute
  std::optional<std::string> omp_num_threads;  // the environment variable
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_memory_bytes = 0;
  std::uint64_t usable_memory_bytes = 0;  // for one process, by the tightest limit
  std::string tightest_memory;            // which limit that is; empty: the machine's memory
  std::string folder;                     // the current folder
  bool folder_is_writable = false;
  std::uint64_t free_disk_bytes = 0;           // in that folder
  std::uint64_t free_shared_memory_bytes = 0;  // in /dev/shm; 0 where there is none
  std::uint64_t open_files = 0;                // soft limit
  std::uint64_t max_open_files = 0;            // hard limit
  bool has_nvidia_driver = false;
  bool has_tensorboard = false;  // the program that shows event files
  std::optional<EngineFacts> engine;
  std::string engine_failure;  // why no engine was loaded
};

/// Collects the facts. It loads an engine; the CUDA engine only where there is a driver.
[[nodiscard]] MachineFacts examine_machine();

/// Something that is wrong or will not work.
struct Finding {
  enum class Kind {
    kProblem,  // something that runs on every sound machine fails or is very slow here
    kLimit,    // one feature does not work, the rest does
  };
  Kind kind = Kind::kLimit;
  std::string topic;
  std::string reason;
  std::string fix;  // may be empty
};

/// Findings about the facts, problems first. A pure function.
[[nodiscard]] std::vector<Finding> judge_machine(const MachineFacts& facts);

}  // namespace tributary::app
