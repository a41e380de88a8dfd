#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/step_plan.h"
#include "simulate/critical_path.h"
#include "simulate/lane_memory.h"
#include "simulate/program/disturbance.h"
#include "simulate/program/fold_replicas.h"
#include "simulate/program/plan_network.h"
#include "simulate/program/step_bound.h"
#include "simulate/samples/deal_samples.h"
#include "simulate/step_distribution.h"

namespace tributary::simulate {

/// Where sample sizes come from. Nothing: every microbatch is a full sequence, all steps are equal.
/// What is drawn, by kMixture and kRecorded, and kBatches are packed and balanced as the trainer
/// does it.
struct SampleSource {
  enum class Kind { kFullMicrobatches, kMixture, kRecorded, kBatches, kGiven };
  Kind kind = Kind::kFullMicrobatches;
  RecordedSizes recorded = {};
  // [batches][global samples] step after step, from the first again; must outlive the simulation
  const std::vector<std::vector<SampleSize>>* batches = nullptr;
  // [batches] which must outlive it too; none: each step deals its own
  std::vector<const schedule::StepPlan*> deals = {};
  // [steps] from the first again; of any number. One step of one replica of each module is that of
  // all steps and replicas.
  std::vector<StepShapes> given = {};
};

inline constexpr std::int64_t kMostSteps = 1'000'000;  // of one simulation

struct SimulationOptions {
  std::int64_t steps = 1;
  std::uint64_t seed = 0;
  SampleSource samples = {};
  Disturbance disturbance = {};
  NetworkOptions network = {};
  schedule::Buffers buffers = {};
  int batches_ahead = -1;      // that whole batches of frozen `flow` modules may be; -1: they go on
                               // by microbatches, as far as the pool lets them
  Nanoseconds scheduler = {};  // of the step plan; what a step does not hide is added to it
};

/// What the fullest rank of any step holds.
struct FullestLane {
  int lane = 0;
  std::int64_t step = 0;
  LaneMemory memory = {};
};

/// A plan that does not fit, with what it holds on the fullest rank of any step.
struct OutOfMemory {
  std::string lane;
  std::int64_t step = 0;
  Bytes needed;
  Bytes available;
  LaneMemory memory;
};

/// FLOPs utilisation of the shown step.
struct Utilisation {
  double mfu = 0;          // by `flops.all.causal`
  double peak = 0;         // FLOPs that all ranks could do in the step
  cost::StageFlops flops;  // of the step
  std::string formula;
};

/// What a plan does in some steps, and one of them, the median, in full.
struct Simulation {
  std::vector<Nanoseconds> steps = {};
  StepDistribution distribution = {};
  std::int64_t shown = 0;                     // the step that all of the following is of
  std::int64_t ranks = 0;                     // of the plan
  std::vector<std::int64_t> lane_ranks = {};  // [lanes] ranks that a simulated lane stands for
  StepProgram program;
  Network network = {};
  StepLoad load = {};
  StepTimes times = {};
  std::vector<LaneAccount> accounts = {};                    // [lanes]
  std::vector<LaneMemory> memory = {};                       // [lanes]
  std::vector<std::vector<MemoryPoint>> memory_points = {};  // [lanes]
  std::vector<PathPart> critical_path = {};
  LanesAhead ahead = {};
  Utilisation utilisation = {};
  FailureCost failures = {};
  FullestLane fullest = {};  // of all steps
  std::optional<OutOfMemory> out_of_memory = {};
  bool outside_grid = false;
  // Work ahead was still changing from step to step after the warm-up: the first steps are not yet
  // those of a long run.
  bool unsettled = false;
};

/// Simulates steps of a plan.
///
/// errors: Fault::kInput naming key and value: a plan without action lists, a cluster that is too
///         small, options out of range; a plan that does not fit in memory is a result
/// cost:   a second for some ten million actions; equal replicas and steps are simulated once
[[nodiscard]] Simulation simulate(const config::Plan& plan, const cost::StageCosts& costs,
                                  const config::Cluster& cluster,
                                  const SimulationOptions& options = {});

/// The least time of the shown step, in any order of the passes.
[[nodiscard]] StepBound bound_of(const Simulation& simulation);

}  // namespace tributary::simulate
