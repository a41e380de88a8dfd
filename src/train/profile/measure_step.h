#pragma once

#include "config/artifact/profile.h"
#include "train/profile/live_bytes.h"
#include "train/profile/measure_passes.h"
#include "train/start/session.h"

namespace tributary::train {

struct StepOptions {
  int warm_up = 3;
  int steps = 15;  // that count
};

/// Takes steps of a run as the trainer does, by all ranks of a crowd, and measures what is beside
/// their passes: the wait for samples, agreement, collating, the norm and the update; where they
/// share cores, what reading samples takes of these. Without threads.
///
/// `bytes` counts since before the session was opened: what the process holds beyond it are
/// libraries, the loader and what the allocator keeps.
/// collective: over `world`; the ranks of the crowd step alone and at the same time
[[nodiscard]] config::MeasuredStep measure_step(Session& session, const LiveBytes& bytes,
                                                const mesh::Group& world, const Crowd& crowd,
                                                const StepOptions& options);

}  // namespace tributary::train
