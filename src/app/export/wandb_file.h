#pragma once

#include <string>

#include "app/export/run_history.h"

namespace tributary::app {

/// Writes a run as the W&B client leaves one that it trained offline: a directory
/// `offline-run-<time>-<id>` in `folder`, which `wandb sync` uploads. Another export of the same
/// run replaces it.
///
/// errors: Fault::kResource where the disk refuses
/// source: W&B 0.31, wandb_internal.proto; the log format of LevelDB; docs/formats/trackers.md
/// Returns the directory of the run.
std::string write_wandb_run(const RunHistory& history, const std::string& folder,
                            const std::string& project);

}  // namespace tributary::app
