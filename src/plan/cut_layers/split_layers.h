#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/plan/plan.h"
#include "core/units.h"
#include "plan/certificate.h"

namespace tributary::plan {

/// Times and bytes of one unit (embedding, layer, projector, head) for one microbatch. A frozen
/// unit has only the passes that it still runs.
struct UnitCosts {
  Nanoseconds forward = {};
  Nanoseconds input_gradient = {};
  Nanoseconds weight_gradient = {};
  Nanoseconds recompute_selective = {};  // what the level adds to backward
  Nanoseconds recompute_full = {};
  Bytes state = {};       // parameters, gradients, optimizer
  Bytes activation = {};  // kept for one microbatch, nothing recomputed
  Bytes activation_selective = {};
  Bytes activation_full = {};

  [[nodiscard]] Nanoseconds passes() const { return forward + input_gradient + weight_gradient; }
};

/// A chain of units to be cut into the stages of a 1F1B pipeline.
struct SplitProblem {
  std::vector<UnitCosts> units = {};
  std::int64_t stages = 1;
  std::int64_t microbatches = 1;
  Nanoseconds boundary = {};         // of a transfer between stages that compute does not hide
  std::optional<Bytes> memory = {};  // of a device, after buffers and reserve; null: no limit
  std::int64_t stages_behind = 0;    // of other modules behind the chain: they keep more in flight
};

struct LayerSplit {
  Certificate certificate = {};               // of the sum of stages + (microbatches - 1) * slowest
  std::vector<std::int64_t> first_unit = {};  // [stages + 1]: ascending, 0 first, units last
  std::vector<config::RecomputePlan> recompute = {};  // [stages] the cheapest level that fits
  std::vector<Nanoseconds> stage_time = {};           // [stages] for one microbatch
};

/// Cuts the units into stages of at least one unit. It minimises the sum of the stages plus
/// (microbatches - 1) times the slowest; each stage takes the cheapest recompute level that fits.
///
/// A bisection finds the min time of the slowest stage. Then a dynamic programme finds the min sum
/// for every larger limit that could still win.
///
/// owns:   nothing; ties take the earliest cut
/// errors: Fault::kInput when there are fewer units than stages, or a value is below 0; a chain
///         that does not fit is a result that names stage and bytes
/// cost:   O(units * stages) for each limit where nothing recomputes, O(units^2 * stages) where all
///         does; 82 units, 16 stages: bench/studies/dflop_bench
/// source: Zheng 2022, "Alpa" (arXiv:2201.12023), section 5; here the recompute level of a stage
///         depends on its place, so the sum is not the same for every cut
[[nodiscard]] LayerSplit split_layers(const SplitProblem& problem);

/// The min memory of a device for which the chain can be cut, with full recompute.
///
/// errors: as split_layers
/// cost:   O(units^2 * stages)
[[nodiscard]] Bytes min_memory(const SplitProblem& problem);

/// Makespan of the stages in 1F1B, by its schedule; backward includes recompute and boundary.
[[nodiscard]] Nanoseconds simulate_split(const SplitProblem& problem, const LayerSplit& split);

/// Moves single units over boundaries while the simulated makespan falls.
///
/// The certificate is for the makespan. Its bound is the work of the slowest stage, so the status
/// is feasible, not optimal.
[[nodiscard]] LayerSplit polish_split(const SplitProblem& problem, const LayerSplit& split);

}  // namespace tributary::plan
