#pragma once

#include <vector>

#include "simulate/program/plan_network.h"
#include "simulate/program/step_load.h"
#include "simulate/samples/deal_samples.h"

namespace tributary::simulate {

/// One step: the costs of its passes, and the time of every action.
struct LoadedStep {
  StepLoad load = {};
  std::vector<cost::StageCost> pass_costs = {};  // [actions]
  cost::StageFlops flops = {};                   // of all ranks that the lanes represent
  bool outside_grid = false;
};

/// Fills the load of a step from the costs of its microbatches.
///
/// shape: shapes [modules][simulated replicas][microbatches]
[[nodiscard]] LoadedStep load_step(const StepProgram& program, const cost::StageCosts& costs,
                                   const ReplicaFolding& folding, const StepShapes& shapes);

}  // namespace tributary::simulate
