#pragma once

#include <cstdint>
#include <vector>

#include "memory/address/page_table.h"
#include "memory/simulate/workload.h"

namespace tributary::memory {

/// What a simulated job did until its last step was committed and its pages were free again.
struct SimulatedRun {
  Nanoseconds time{};
  std::uint64_t events = 0;
  std::uint64_t restarts = 0;      // of the whole job, from its checkpoint
  std::uint64_t replacements = 0;  // of producers
  std::uint64_t renewed = 0;       // links to the controller that broke
  std::uint64_t gets = 0, failed_gets = 0;
  std::uint64_t cancelled = 0;  // encodes
  std::uint64_t unmade = 0;     // objects that arrived as ones that cannot be made
  std::uint64_t given_up = 0;   // steps that did not wait for all objects
  std::uint64_t refused = 0;    // messages, by the controller
  std::uint64_t parts = 0;      // of messages larger than a frame, that have come
  std::vector<std::uint64_t> committed_samples = {};  // in the order of commits
  Digest plan_log{};                                  // of all records
};

/// Runs the cores of a whole job on a virtual clock, over a network that fails, with processes that
/// crash, stop and come back; after every event the invariants of the pool are asserted. A run is
/// repeated exactly by its workload.
///
/// errors: Fault::kBug when an invariant is broken, a reader gets wrong bytes, or the job does not
/// end
[[nodiscard]] SimulatedRun simulate_pool(const SimulatedWorkload& workload);

}  // namespace tributary::memory
