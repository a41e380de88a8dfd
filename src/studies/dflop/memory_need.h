#pragma once

#include <limits>
#include <string>
#include <utility>

#include "studies/dflop/problem_3d.h"

namespace tributary::studies {

/// What a plan asks of a device where it asks most.
struct MemoryNeed {
  double bytes = std::numeric_limits<double>::infinity();
  std::string plan = {};
  std::string of = {};  // the stage, by its module or modules
};

/// The lesser need, the first of equals.
inline void keep_least(MemoryNeed& least, MemoryNeed need) {
  if (need.bytes < least.bytes) least = std::move(need);
}
/// The same of a need of so many bytes, which is only put into words where it is the lesser.
template <class Need>
void keep_least(MemoryNeed& least, double bytes, const Need& need) {
  if (bytes < least.bytes) least = need();
}

/// The fullest of so many stages.
[[nodiscard]] std::string fullest_of(const ModuleCosts& module, std::int64_t stages);

/// What a plan with the modules in one pipeline asks, of the module that asks more.
[[nodiscard]] MemoryNeed need_of(const Problem3d& problem, const Plan3d& plan);

/// That no plan fits into `held` bytes, by the one that needs the least, and how much is missing.
[[nodiscard]] std::string explain_shortage(const MemoryNeed& least, double held);

}  // namespace tributary::studies
