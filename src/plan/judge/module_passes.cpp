#include "plan/judge/module_passes.h"

namespace tributary::plan {
namespace {

/// The replica whose passes take longest in all, the lowest of equals.
template <class Duration>
std::size_t slowest(const ModulePasses& passes, int own, const Duration& duration) {
  std::size_t found = 0;
  std::int64_t longest = -1;
  for (std::size_t replica = 0; replica < passes.replicas(); ++replica) {
    std::int64_t all = 0;
    for (int i = 0; i < own; ++i) all += duration(passes.at(0, i)[replica].costs);
    if (all <= longest) continue;
    longest = all;
    found = replica;
  }
  return found;
}

}  // namespace

ModulePasses join_replicas(const ModulePasses& passes, int microbatches) {
  const int own = static_cast<int>(passes.first_of.size() / passes.replicas());
  const std::size_t forward =
      slowest(passes, own, [](const PassCosts& costs) { return costs.forward; });
  const std::size_t backward =
      slowest(passes, own, [](const PassCosts& costs) { return costs.backward(); });
  std::int64_t replicas = 0;
  for (const std::int64_t times : passes.stand_for) replicas += times;
  ModulePasses joined{.stand_for = {replicas}, .kind_of = {0}};
  for (int i = 0; i < microbatches; ++i)
    joined.first_of.push_back(static_cast<std::size_t>(std::min(i, own)));
  for (int i = 0; i < own; ++i) {
    const ModulePasses::OfReplicas of = passes.at(0, i);
    StagePass& pass = joined.passes.emplace_back();
    std::int64_t boundary = 0;
    for (std::size_t replica = 0; replica < passes.replicas(); ++replica) {
      boundary += of[replica].costs.boundary * passes.stand_for[replica];
      pass.bytes.raise_to(of[replica].bytes);
    }
    pass.costs = {.forward = of[forward].costs.forward,
                  .input_gradient = of[backward].costs.input_gradient,
                  .weight_gradient = of[backward].costs.weight_gradient,
                  .boundary = (boundary + replicas - 1) / replicas};
  }
  joined.passes.emplace_back();  // an empty one, for microbatches beyond its own passes
  for (const StagePass& pass : joined.passes) joined.mean_boundary += pass.costs.boundary;
  joined.mean_boundary = (joined.mean_boundary + microbatches - 1) / microbatches;
  return joined;
}

}  // namespace tributary::plan
