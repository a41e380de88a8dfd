#include <algorithm>
#include <set>

#include "core/random.h"
#include "tests/train/checkpoint/memory_file_system.h"

namespace tributary::train {
namespace {

using Kind = DiskOperation::Kind;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// Whether a later sync among the first `done` operations made operation `at` durable.
bool is_durable(const std::vector<DiskOperation>& record, std::size_t at, std::size_t done) {
  const DiskOperation& operation = record[at];
  for (std::size_t i = at + 1; i < done; ++i) {
    const DiskOperation& later = record[i];
    if (operation.kind == Kind::kWrite) {
      if (later.kind == Kind::kSync && later.inode == operation.inode) return true;
    } else if (later.kind == Kind::kSyncDirectory) {
      if (later.path == folder_of(operation.path)) return true;
    }
  }
  return false;
}

bool is_sync(const DiskOperation& operation) {
  return operation.kind == Kind::kSync || operation.kind == Kind::kSyncDirectory;
}

/// Some pages of 4 KiB of a write reached the disk, the others read as zeros.
std::string tear(const std::string& data, RandomStream& random) {
  constexpr std::size_t kPage = 4096;
  std::string torn(data.size(), '\0');
  for (std::size_t at = 0; at < data.size(); at += kPage)
    if (random.below(2) == 0)
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(at), std::min(kPage, data.size() - at),
                  torn.begin() + static_cast<std::ptrdiff_t>(at));
  return torn;
}

/// Which of the operations in doubt happened: bit i stands for the i-th.
std::vector<std::vector<bool>> choose_subsets(std::size_t doubtful, std::size_t max,
                                              RandomStream& random) {
  std::vector<std::vector<bool>> subsets;
  constexpr std::size_t kAllSubsets = 6;
  if (doubtful <= kAllSubsets) {
    for (std::size_t mask = 0; mask < (std::size_t{1} << doubtful); ++mask) {
      subsets.emplace_back(doubtful);
      for (std::size_t i = 0; i < doubtful; ++i) subsets.back()[i] = (mask >> i & 1) != 0;
    }
    return subsets;
  }
  subsets.emplace_back(doubtful, true);
  subsets.emplace_back(doubtful, false);
  while (subsets.size() < max) {
    subsets.emplace_back(doubtful);
    for (std::size_t i = 0; i < doubtful; ++i) subsets.back()[i] = random.below(2) == 0;
  }
  return subsets;
}

}  // namespace

std::vector<MemoryFileSystem> disks_after_power_cut(const MemoryFileSystem& before,
                                                    const std::vector<DiskOperation>& record,
                                                    std::size_t done, std::size_t max,
                                                    std::uint64_t seed) {
  RandomStream random(seed, "power cut", done);
  std::vector<std::size_t> doubtful;
  for (std::size_t i = 0; i < done; ++i)
    if (!is_sync(record[i]) && !is_durable(record, i, done)) doubtful.push_back(i);

  std::vector<MemoryFileSystem> disks;
  for (const std::vector<bool>& happened : choose_subsets(doubtful.size(), max, random)) {
    for (const bool torn : {false, true}) {
      MemoryFileSystem disk = before.copy();
      bool has_write = false;
      std::size_t next = 0;
      for (std::size_t i = 0; i < done; ++i) {
        DiskOperation operation = record[i];
        if (next < doubtful.size() && doubtful[next] == i) {
          if (!happened[next++]) continue;
          if (operation.kind == Kind::kWrite) {
            has_write = true;
            if (torn) operation.data = tear(operation.data, random);
          }
        }
        disk.repeat(operation);
      }
      if (!torn || has_write) disks.push_back(disk.copy());
    }
  }
  return disks;
}

}  // namespace tributary::train
