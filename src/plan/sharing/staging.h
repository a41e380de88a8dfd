#pragma once

#include <vector>

#include "plan/certificate.h"
#include "plan/sharing/sharing_problem.h"

namespace tributary::plan {

/// Modules that run at the same time, and where.
struct SharedStage {
  ModuleSet modules = 0;
  Nanoseconds time = {};
  std::vector<PlacedModule> placed = {};  // by module
};

/// Stages that run one after another.
struct Staging {
  Certificate certificate = {};  // for the sum of the stages; evaluations count stages searched
  std::vector<SharedStage> stages = {};
};

struct StagingEffort {
  std::int64_t evaluations = 50'000'000;  // max stages whose time is searched for
  std::int64_t steps = 500'000'000;       // max placements tried where modules slow each other
};

/// Repeatedly merges the pair of stages that gains most, until none gains.
///
/// owns:   nothing; of equal gains the first pair
/// errors: Fault::kInput as check_problem; modules that do not fit are a result that names them
/// source: Mosaic, Algorithm 1 (GAHC); its bound here is the area of all modules
[[nodiscard]] Staging merge_stages(const SharingProblem& problem, const StagingEffort& effort = {});

/// Finds the stages with the min sum of times, and proves it.
///
/// A dynamic programme over the sets of modules that may run first. The time of a stage is computed
/// only as far as a better staging depends on it. Where all independent modules have the same
/// neighbours, the stages of a level commute, so one fixed module of each level always comes in its
/// last stage. Ties: fewer stages, then the smallest sets.
///
/// owns:   nothing
/// errors: as merge_stages
/// cost:   10 modules on 4 devices in tenths, 16 modules: bench/plan/sharing_bench
/// source: ours; the problem is Mosaic's, with aligned blocks of devices
[[nodiscard]] Staging group_stages(const SharingProblem& problem, const StagingEffort& effort = {});

}  // namespace tributary::plan
