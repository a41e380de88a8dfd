#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/units.h"

namespace tributary {

/// How much host memory may still be taken under one limit.
struct MemoryLimit {
  std::string name = {};    // `free memory of the machine`
  Bytes left = {};          // at this moment
  bool of_process = false;  // applies to this process only
};

/// The directories of the system's files; tests give their own.
struct MemoryFiles {
  std::string proc = "/proc";
  std::string groups = "/sys/fs/cgroup";
};

/// Lists what limits the memory of this process: the free memory and swap of the machine, the
/// limits of its control groups (version 2, or the memory controller of version 1), and
/// `ulimit -v`. Limits that are not set, or cannot be read, are left out.
///
/// cost: reads a few small files
[[nodiscard]] std::vector<MemoryLimit> list_memory_limits(const MemoryFiles& files = {});

/// How much each of `processes` processes on this machine may take under that limit.
[[nodiscard]] inline Bytes share_of(const MemoryLimit& limit, std::int64_t processes) {
  return {limit.of_process ? limit.left.count : limit.left.count / processes};
}

/// Bytes as a person reads them: `812 B`, `4.4 MiB`, `57.2 GiB`.
[[nodiscard]] std::string describe_bytes(Bytes bytes);

}  // namespace tributary
