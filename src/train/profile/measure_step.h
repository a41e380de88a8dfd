#pragma once

#include "config/artifact/profile.h"
#include "train/profile/live_bytes.h"
#include "train/profile/measure_passes.h"
#include "train/start/session.h"

namespace tributary::train {

struct StepOptions {
  int warm_up = 3;
  int steps = 15;  // after the warm-up
};

/// Takes steps of a run as the trainer does, on all ranks of a crowd, and measures what comes
/// beside their passes: the wait for samples, agreement, collating, the norm and the update; where
/// ranks share cores, the CPU time of reading samples. The result has no number of threads.
///
/// `bytes` has counted since before the session was opened: what the process holds beyond it are
/// libraries, the loader and what the allocator keeps.
/// collective: over `world`; the ranks of the crowd step alone and at the same time
[[nodiscard]] config::MeasuredStep measure_step(Session& session, const LiveBytes& bytes,
                                                const mesh::Group& world, const Crowd& crowd,
                                                const StepOptions& options);

}  // namespace tributary::train
