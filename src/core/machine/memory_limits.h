#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/units.h"

namespace tributary {

/// Memory of the host that may still be taken, by one of the things that limit it.
struct MemoryLimit {
  std::string name = {};    // `free memory of the machine`
  Bytes left = {};          // at this moment
  bool of_process = false;  // other processes do not share it
};

/// Where the files of the system lie; tests give directories of their own.
struct MemoryFiles {
  std::string proc = "/proc";
  std::string groups = "/sys/fs/cgroup";
};

/// Lists what limits the memory of this process: the free memory and swap of the machine, the
/// limits of its control groups (version 2, or the memory controller of version 1), and
/// `ulimit -v`. What is not set, or cannot be read, is left out.
///
/// cost: a few small files are read
[[nodiscard]] std::vector<MemoryLimit> list_memory_limits(const MemoryFiles& files = {});

/// What each of so many processes of this machine may take by that limit.
[[nodiscard]] inline Bytes share_of(const MemoryLimit& limit, std::int64_t processes) {
  return {limit.of_process ? limit.left.count : limit.left.count / processes};
}

/// Bytes as a person reads them: `812 B`, `4.4 MiB`, `57.2 GiB`.
[[nodiscard]] std::string describe_bytes(Bytes bytes);

}  // namespace tributary
