#include "studies/dflop/memory_need.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "core/units.h"

namespace tributary::studies {

std::string fullest_of(const ModuleCosts& module, std::int64_t stages) {
  return str(stages > 1 ? "the first stage of " : "", module.name);
}

MemoryNeed need_of(const Problem3d& problem, const Plan3d& plan) {
  const auto bytes = [&](const ModuleCosts& module, const Degrees& degrees, std::int64_t depth) {
    const double samples = double(problem.global_samples) / double(plan.microbatches * degrees.dp);
    return device_bytes(module, degrees, double(depth), module.sample_shape * samples);
  };
  const double encoder = bytes(problem.encoder, plan.encoder, plan.encoder.pp + plan.backbone.pp);
  const double backbone = bytes(problem.backbone, plan.backbone, plan.backbone.pp);
  return {std::max(encoder, backbone), describe(plan),
          encoder > backbone ? fullest_of(problem.encoder, plan.encoder.pp)
                             : fullest_of(problem.backbone, plan.backbone.pp)};
}

std::string explain_shortage(const MemoryNeed& least, double held) {
  const Bytes needed{std::llround(least.bytes)};
  const Bytes limit{std::llround(held)};
  return str("memory: ", least.plan, " needs the least, ", needed, " on a device of ", least.of,
             ", ", needed - limit, " above the ", limit, " that a plan may hold");
}

}  // namespace tributary::studies
