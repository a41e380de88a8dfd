#pragma once

#include <vector>

#include "plan/certificate.h"
#include "plan/sharing/sharing_problem.h"

namespace tributary::plan {

/// Modules that run at the same time, and how.
struct SharedStage {
  ModuleSet modules = 0;
  Nanoseconds time = {};
  std::vector<PlacedModule> placed = {};  // by module
};

/// Stages that run one after another.
struct Staging {
  Certificate certificate = {};  // of the sum of the stages; evaluations count stages looked at
  std::vector<SharedStage> stages = {};
};

struct StagingEffort {
  std::int64_t evaluations = 50'000'000;  // stages of which the time is looked for
  std::int64_t steps = 500'000'000;       // placements tried where modules slow each other
};

/// Merges the pair of stages that gains most until none gains.
///
/// owns:   nothing; of equal gains the first pair
/// errors: Fault::kInput as check_problem; modules that do not fit are a result that names them
/// source: Mosaic, Algorithm 1 (GAHC); its bound here is the area of all modules
[[nodiscard]] Staging merge_stages(const SharingProblem& problem, const StagingEffort& effort = {});

/// Finds the stages whose times add up to least, and proves it.
///
/// A dynamic programme over sets of modules that may come first; the time of a stage is looked for
/// only as far as a better whole depends on it. Where all modules that are independent have the
/// same neighbours, stages of a level commute, so one module of a level always comes in its last
/// stage. Ties: fewer stages, then the smallest sets.
///
/// owns:   nothing
/// errors: as merge_stages
/// cost:   10 modules on 4 devices in tenths, 16 modules: bench/plan/sharing_bench
/// source: ours; the problem is Mosaic's, with aligned blocks of devices
[[nodiscard]] Staging group_stages(const SharingProblem& problem, const StagingEffort& effort = {});

}  // namespace tributary::plan
