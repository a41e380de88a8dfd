#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/judge/replica_timer.h"
#include "plan/problem/plan_choice.h"
#include "simulate/simulate.h"

namespace tributary::plan {

/// The lists of one replica of each module of a choice, and the network they run on. Links are not
/// shared, and no ranks share cores.
struct ReplicaProgram {
  ReplicaProgram(const PlanningProblem& problem, const PlanChoice& chosen, const config::Plan& plan,
                 simulate::FoldedPipeline pipeline,
                 std::shared_ptr<const simulate::StepProgram> lists);

  PlanChoice choice;
  simulate::FoldedPipeline folded;
  std::shared_ptr<const simulate::StepProgram> program;  // other choices may use it too
  simulate::Network network;
  simulate::Network ports;  // with links that messages share
  ReplicaTimer timer;
};

/// What the lists of a plan depend on: two pipelines with one name have the same lists.
[[nodiscard]] std::string name_lists(const schedule::Pipeline& pipeline);

/// A plan ready to be run on batches.
struct JudgedPlan {
  JudgedPlan(const PlanningProblem& problem, const PlanChoice& chosen, config::Plan of,
             const ReplicaProgram& lists);

  config::Plan plan;
  schedule::Pipeline whole;
  cost::LayerStageCosts costs;
  const simulate::StepProgram& program;
  const simulate::Network& ports;
  const ReplicaTimer& timer;
  const PlanChoice& choice;
  std::vector<ChainCut> cuts = {};      // [modules of the pipeline]
  std::vector<std::size_t> chain = {};  // [modules of the pipeline] index of the chain
  ReplicaLoad load = {};
};

/// Sets the times of reductions and optimizer steps, which do not depend on the microbatches.
void load_fixed(JudgedPlan& plan);

/// How long the busiest port of a rank is taken: no order of the messages ends earlier.
[[nodiscard]] Nanoseconds port_time(const JudgedPlan& plan);

/// The peak of the fullest lane.
struct LanePeak {
  Bytes bytes = {};
  int lane = 0;
};
[[nodiscard]] LanePeak peak_of(const JudgedPlan& plan);

}  // namespace tributary::plan
