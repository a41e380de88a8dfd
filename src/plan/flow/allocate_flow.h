#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/certificate.h"

namespace tributary::plan {

/// One way to run a module.
struct FlowCandidate {
  std::int64_t devices = 1;
  Nanoseconds period = {};  // for 1,024 paired samples; those without the modality are free
};

struct FlowModule {
  std::string name = {};
  std::vector<FlowCandidate> candidates = {};
};

/// Encoders that produce features at their own pace, and the backbone that consumes them.
struct FlowProblem {
  std::vector<FlowModule> encoders;
  FlowModule backbone;
  std::int64_t devices = 1;
};

/// What decides among allocations with the same, best pace.
enum class FlowOrder {
  kPublished,  // min |production - consumption|, then devices, then indices
  kExact,      // devices, then faster encoders (a surplus absorbs variance), indices
};

/// A candidate for every module; the slower of production and consumption sets the pace.
struct FlowAllocation {
  Certificate certificate;           // for the period of the pace
  std::vector<std::int32_t> chosen;  // [encoders + 1] candidate; the backbone last
  Nanoseconds production = {};       // period of the slowest encoder; 0 without encoders
  Nanoseconds consumption = {};      // period of the backbone
  std::int64_t devices = 0;
};

/// Chooses candidates within the devices so that the pace is the fastest possible.
///
/// The pace equals the period of some candidate: the min one at which the cheapest choices fit,
/// found by bisection. The second aim only moves one side, so all periods of that side are tried.
///
/// units:  periods compared as whole numbers, never as rates
/// errors: Fault::kInput naming the module when it has no candidate, or a candidate is not above 0;
///         an infeasible problem is a result that says what binds
/// cost:   O(candidates^2 * modules) at worst
/// source: FlowTrain, equations 1 and 2; the published system solves a mixed-integer program
[[nodiscard]] FlowAllocation allocate_flow(const FlowProblem& problem, FlowOrder order);

}  // namespace tributary::plan
