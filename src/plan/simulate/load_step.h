#pragma once

#include <vector>

#include "plan/shapes/deal_samples.h"
#include "plan/simulate/plan_network.h"
#include "plan/simulate/step_load.h"

namespace tributary::plan {

/// One step: what its passes cost, and how long everything takes.
struct LoadedStep {
  StepLoad load = {};
  std::vector<StageCost> pass_costs = {};  // [actions]
  StageFlops flops = {};                   // of all ranks that the lanes stand for
  bool outside_grid = false;
};

/// Fills the load of a step from the costs of its microbatches.
///
/// shape: shapes [modules][replicas that are simulated][microbatches]
[[nodiscard]] LoadedStep load_step(const StepProgram& program, const StageCosts& costs,
                                   const ReplicaFolding& folding, const StepShapes& shapes);

}  // namespace tributary::plan
