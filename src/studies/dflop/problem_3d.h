#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "studies/dflop/throughput.h"

namespace tributary::studies {

/// The costs of a module at one tensor-parallel degree.
struct DegreeCosts {
  std::int64_t tp = 1;
  Throughput throughput = {};   // of one of the tp devices
  double state_bytes = 0;       // parameters, gradients, optimizer of the whole module, by device
  double activation_bytes = 0;  // that a layer keeps for one tile or token, by device
  double transient_bytes = 0;   // for one tile or token, once, while a microbatch runs
};

/// A module in the published objective: equal layers, and a mean sample.
struct ModuleCosts {
  std::string name = {};
  std::int64_t layers = 1;
  double sample_flops = 0;                // of the mean sample, all passes
  double sample_shape = 0;                // tiles or tokens of the mean sample
  double forward_share = 0.25;            // of the time; the rest is backward with recompute
  double gradient_share = 2.0 / 18;       // of the state bytes, reduced over replicas in every step
  double parameter_share = 2.0 / 18;      // of the state bytes
  double sharded_share = 0;               // of the state bytes, sharded over the replicas
  std::vector<DegreeCosts> degrees = {};  // ascending by tp
};

/// An encoder and a backbone on ranks of their own, in one pipeline.
struct Problem3d {
  ModuleCosts encoder;
  ModuleCosts backbone;
  std::int64_t devices = 2;
  std::int64_t global_samples = 1;
  double memory_bytes = 0;  // of a device, after the reserve
};

struct Degrees {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;

  [[nodiscard]] std::int64_t devices() const { return tp * pp * dp; }
  friend auto operator<=>(const Degrees&, const Degrees&) = default;
};
[[nodiscard]] std::string to_text(const Degrees& degrees);
/// `1 microbatch`, `12 microbatches`
[[nodiscard]] std::string microbatches_text(std::int64_t microbatches);

struct Plan3d {
  Degrees encoder;
  Degrees backbone;
  std::int64_t microbatches = 1;  // of each replica of the backbone
  double seconds = 0;             // of a step, by the objective

  friend bool operator==(const Plan3d&, const Plan3d&) = default;
};
[[nodiscard]] std::string describe(const Plan3d& plan);

/// errors: Fault::kInput naming the value that cannot be used
void check_problem(const Problem3d& problem);

/// Seconds of a step: (microbatches + stages - 1) times the slower module's stage.
///
/// source: DFLOP, Algorithm 1, with the FLOPs of one microbatch on one replica
[[nodiscard]] double step_seconds(const Problem3d& problem, const Plan3d& plan);

/// Bytes that a device of the module holds with `depth` microbatches of `shape` in flight.
[[nodiscard]] double device_bytes(const ModuleCosts& module, const Degrees& degrees, double depth,
                                  double shape);

/// The costs at a degree that the module must have.
[[nodiscard]] const DegreeCosts& costs_at(const ModuleCosts& module, std::int64_t tp);

/// All ways to run a module on exactly `devices` devices: tp a profiled degree, pp at most the
/// layers, dp at most the global batch; by (pp, tp, dp).
[[nodiscard]] std::vector<Degrees> list_degrees(const ModuleCosts& module, std::int64_t devices,
                                                std::int64_t global_samples);

/// Whether the plan is in the problem's space and fits in memory.
[[nodiscard]] bool is_valid(const Problem3d& problem, const Plan3d& plan);

/// What a plan needs on the device where it needs most.
struct MemoryNeed {
  double bytes = std::numeric_limits<double>::infinity();
  std::string plan = {};
  std::string of = {};  // the stage, by its module or modules
};

/// Keeps the smaller need, the first of equals.
inline void keep_least(MemoryNeed& min, MemoryNeed need) {
  if (need.bytes < min.bytes) min = std::move(need);
}
/// The same for a need of `bytes`, which is only put into words where it is the smaller one.
template <class Need>
void keep_least(MemoryNeed& min, double bytes, const Need& need) {
  if (bytes < min.bytes) min = need();
}

/// The name of the fullest of `stages` stages.
[[nodiscard]] std::string fullest_of(const ModuleCosts& module, std::int64_t stages);

/// What a plan with both modules in one pipeline needs, by the module that needs more.
[[nodiscard]] MemoryNeed need_of(const Problem3d& problem, const Plan3d& plan);

/// Says that no plan fits into `held` bytes: which one needs the least, and how much is missing.
[[nodiscard]] std::string explain_shortage(const MemoryNeed& min, double held);

}  // namespace tributary::studies
