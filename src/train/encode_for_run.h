#pragma once

#include <chrono>
#include <iosfwd>

#include "config/run/run_config.h"
#include "core/exit_code.h"
#include "train/run/stop_request.h"

namespace tributary::train {

struct EncoderOptions {
  /// How long to wait for a run: for its start, and after it was lost.
  std::chrono::seconds patience{600};
  /// The number of the device on this machine, where run.device does not say which.
  int local_rank = 0;
  /// Builds the encoder only once the run is there: its weights may not be before.
  bool waits_first = false;
};

/// Encodes for a run with modules of placement `flow`, as a process beside its ranks: takes samples
/// that the run will need, reads them itself, and lends their features to whoever asks. It may come
/// and leave at any time.
///
/// Returns kDone when the run is over or this process was asked to stop, kPeerLost when no run is
/// there for `patience`.
/// errors: Fault::kInput when the run has other data, weights or settings
[[nodiscard]] ExitCode encode_for_run(const config::RunConfig& config,
                                      const EncoderOptions& options, const StopRequest& stop,
                                      std::ostream& out);

}  // namespace tributary::train
