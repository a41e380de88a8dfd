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

/// The source of sample sizes. None: every microbatch is a full sequence, and all steps are equal.
/// Samples of kMixture, kRecorded, kBatches and kShapes are packed and balanced as the trainer does
/// it, and those of kShapes dealt to encoders item by item.
struct SampleSource {
  enum class Kind { kFullMicrobatches, kMixture, kRecorded, kBatches, kShapes, kGiven };
  Kind kind = Kind::kFullMicrobatches;
  RecordedSizes recorded = {};
  // [batches][global samples] one batch a step, cyclic; must outlive the simulation
  const std::vector<std::vector<SampleSize>>* batches = nullptr;
  // [batches] which must outlive it too; null: each step dispatches its own
  std::vector<const schedule::StepPlan*> deals = {};
  // [batches][global samples] as `batches`, with the shape of each item
  const std::vector<std::vector<SampleShape>>* shapes = nullptr;
  // [steps] cyclic, of any length. One step of one replica of each module represents all of them.
  std::vector<StepShapes> given = {};
};

inline constexpr std::int64_t kMaxSteps = 1'000'000;  // max steps of one simulation

struct SimulationOptions {
  std::int64_t steps = 1;
  std::uint64_t seed = 0;
  SampleSource samples = {};
  Disturbance disturbance = {};
  NetworkOptions network = {};
  schedule::Buffers buffers = {};
  int batches_ahead = -1;      // max whole batches that frozen `flow` modules are ahead; -1:
                               // microbatches, as far as the pool allows
  Nanoseconds scheduler = {};  // time to plan a step; the part a step does not hide is added
};

/// The max bytes of a rank in any step, and where.
struct FullestLane {
  int lane = 0;
  std::int64_t step = 0;
  LaneMemory memory = {};
};

/// The plan does not fit: what the fullest rank of any step holds.
struct OutOfMemory {
  std::string lane;
  std::int64_t step = 0;
  Bytes needed;
  Bytes available;
  LaneMemory memory;
};

/// Model FLOPs utilisation of the shown step.
struct Utilisation {
  double mfu = 0;          // from `flops.all.causal`
  double peak = 0;         // FLOPs that all ranks could do in the step
  cost::StageFlops flops;  // of the step
  std::string formula;
};

/// The times of a plan's steps, and its median step in full.
struct Simulation {
  std::vector<Nanoseconds> steps = {};
  StepDistribution distribution = {};
  std::int64_t shown = 0;                     // the step that all fields below describe
  std::int64_t ranks = 0;                     // of the plan
  std::vector<std::int64_t> lane_ranks = {};  // [lanes] ranks that a simulated lane represents
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
  FullestLane fullest = {};  // over all steps
  std::optional<OutOfMemory> out_of_memory = {};
  bool outside_grid = false;
  // Work ahead still changed from step to step after the warm-up, so the first steps differ from
  // those of a long run.
  bool unsettled = false;
};

/// Simulates steps of a plan.
///
/// errors: Fault::kInput naming key and value: a plan without action lists, a cluster that is too
///         small, options out of range; a plan that does not fit in memory is a result
/// cost:   about a second for ten million actions; equal replicas and steps are simulated once
[[nodiscard]] Simulation simulate(const config::Plan& plan, const cost::StageCosts& costs,
                                  const config::Cluster& cluster,
                                  const SimulationOptions& options = {});

/// Lower bound on the shown step, for any order of the passes.
[[nodiscard]] StepBound bound_of(const Simulation& simulation);

}  // namespace tributary::simulate
