#pragma once

#include <map>
#include <span>
#include <string>

#include "config/run/run_config.h"

namespace tributary::train {

/// Writes a double with every digit that tells it from others.
[[nodiscard]] std::string exact(double value);

/// What may not change between a checkpoint and the run that goes on from it: key -> value.
using RunIdentity = std::map<std::string, std::string>;

/// The identity of a configuration: seed, weights and precision, global batch, packing and
/// mixture. open_session() adds what only an opened run knows.
///
/// Free to change: threads, workers, prefetch, microbatch capacity without packing policy, learning
/// rate and schedule, checkpoint, validation and metrics settings, number of steps.
[[nodiscard]] RunIdentity describe_identity(const config::RunConfig& config);

/// Compares a checkpoint's identity with the run's.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused listing every key that differs, with
///         both values, but for the `accepted` ones; Fault::kInput for an accepted key that is none
void check_identity(const RunIdentity& saved, const RunIdentity& current,
                    std::span<const std::string> accepted = {});

}  // namespace tributary::train
