#pragma once

#include <optional>
#include <vector>

#include "simulate/engine/run_ahead.h"
#include "simulate/program/load_step.h"
#include "simulate/samples/deal_step.h"
#include "simulate/simulate.h"

namespace tributary::simulate {

/// A schedule of some number of microbatches, and what it runs on.
struct BuiltProgram {
  StepProgram program;
  Network network;
  std::vector<std::int64_t> lane_ranks;  // [lanes] ranks that a lane stands for
};

/// A step, when everything in it happens, and what is held meanwhile.
struct PlayedStep {
  std::int64_t step = 0;
  LoadedStep loaded = {};
  StepTimes times = {};
  bool is_steady = false;               // leaves what runs ahead as it found it
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

  /// All steps have equal microbatches on equal replicas and nothing disturbs them.
  [[nodiscard]] bool steps_are_equal() const { return steps_are_equal_; }
  [[nodiscard]] bool is_disturbed() const;
  /// Steps change `left`, how what runs ahead is left to the next one.
  [[nodiscard]] bool runs_ahead() const { return runs_ahead_; }
  [[nodiscard]] RunAhead ahead(const StepProgram& program, const Network& network) const;

  /// All of a step but its memory.
  ///
  /// errors: Fault::kInput when it never ends
  [[nodiscard]] PlayedStep time(std::int64_t step, bool disturbed, RunAhead::Left& left);
  [[nodiscard]] PlayedStep play(std::int64_t step, RunAhead::Left& left);
  /// What the step that was played last ran on; it can be had once.
  [[nodiscard]] const BuiltProgram& built() const { return *built_; }
  [[nodiscard]] BuiltProgram release_built() { return std::move(*built_); }

 private:
  bool find_equal_shapes();
  const BuiltProgram& build(const StepShapes& shapes);
  [[nodiscard]] StepShapes shapes_of(std::int64_t step);
  /// What the model can encode of the mixture.
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
