#pragma once

#include <limits>
#include <string>
#include <utility>

#include "studies/dflop/problem_3d.h"

namespace tributary::studies {

/// What a plan needs on the device where it needs most.
struct MemoryNeed {
  double bytes = std::numeric_limits<double>::infinity();
  std::string plan = {};
  std::string of = {};  // the stage, by its module or modules
};

/// Keeps the smaller need, the first of equals.
inline void keep_least(MemoryNeed& least, MemoryNeed need) {
  if (need.bytes < least.bytes) least = std::move(need);
}
/// The same for a need of `bytes`, which is only put into words where it is the smaller one.
template <class Need>
void keep_least(MemoryNeed& least, double bytes, const Need& need) {
  if (bytes < least.bytes) least = need();
}

/// The name of the fullest of `stages` stages.
[[nodiscard]] std::string fullest_of(const ModuleCosts& module, std::int64_t stages);

/// What a plan with both modules in one pipeline needs, by the module that needs more.
[[nodiscard]] MemoryNeed need_of(const Problem3d& problem, const Plan3d& plan);

/// Says that no plan fits into `held` bytes: which one needs the least, and how much is missing.
[[nodiscard]] std::string explain_shortage(const MemoryNeed& least, double held);

}  // namespace tributary::studies
