#pragma once

#include <optional>
#include <vector>

#include "simulate/engine/run_ahead.h"
#include "simulate/program/load_step.h"
#include "simulate/samples/deal_step.h"
#include "simulate/simulate.h"

namespace tributary::simulate {

/// The schedule of a number of microbatches, and its network.
struct BuiltProgram {
  StepProgram program;
  Network network;
  std::vector<std::int64_t> lane_ranks;  // [lanes] ranks that a lane represents
};

/// A step: when everything in it happens, and what is held.
struct PlayedStep {
  std::int64_t step = 0;
  LoadedStep loaded = {};
  StepTimes times = {};
  bool is_steady = false;               // keeps the state of the lanes ahead as it was
  std::vector<LaneMemory> memory = {};  // [lanes]
  std::vector<std::vector<MemoryPoint>> memory_points = {};  // [lanes]
};

/// Plays any step of a plan: its samples, microbatches, schedule, load and disturbances.
///
/// owns: nothing of what it is given, which must outlive it
class StepPlayer {
 public:
  StepPlayer(const config::Plan& plan, const cost::StageCosts& costs,
             const config::Cluster& cluster, const SimulationOptions& options);

  /// Whether all steps have equal microbatches on equal replicas and no disturbance.
  [[nodiscard]] bool steps_are_equal() const { return steps_are_equal_; }
  [[nodiscard]] bool is_disturbed() const;
  /// Whether modules run ahead: then steps change `left`, the state that one passes to the next.
  [[nodiscard]] bool runs_ahead() const { return runs_ahead_; }
  [[nodiscard]] RunAhead ahead(const StepProgram& program, const Network& network) const;

  /// Everything about a step except its memory.
  ///
  /// errors: Fault::kInput when the step never ends
  [[nodiscard]] PlayedStep time(std::int64_t step, bool disturbed, RunAhead::Left& left);
  [[nodiscard]] PlayedStep play(std::int64_t step, RunAhead::Left& left);
  /// The schedule of the step played last; can be taken once.
  [[nodiscard]] const BuiltProgram& built() const { return *built_; }
  [[nodiscard]] BuiltProgram release_built() { return std::move(*built_); }

 private:
  bool find_equal_shapes();
  const BuiltProgram& build(const StepShapes& shapes);
  [[nodiscard]] StepShapes shapes_of(std::int64_t step);
  /// The sound of the mixture that the model can encode.
  [[nodiscard]] MixtureSound mixture_sound() const;
  [[nodiscard]] StepShapes deal_batch(std::size_t batch);
  [[nodiscard]] StepShapes given_shapes(std::uint64_t step) const;

  const config::Plan& plan_;
  const cost::StageCosts& costs_;
  const config::Cluster& cluster_;
  const SimulationOptions& options_;
  schedule::Pipeline whole_;
  StepDealer dealer_;
  bool runs_ahead_;
  bool steps_are_equal_ = false;
  FoldedPipeline folded_;
  StepShapes equal_shapes_;
  std::optional<BuiltProgram> built_;
};

}  // namespace tributary::simulate
