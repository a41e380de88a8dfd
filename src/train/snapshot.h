#pragma once

#include <span>
#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/run/train_state.h"
#include "train/start/session.h"

namespace tributary::train {

/// Names everything that a checkpoint of this moment holds; tensors are views, nothing is copied.
[[nodiscard]] CheckpointContent describe_snapshot(const Session& session, const TrainState& state);

/// Puts parameters, moments and loader to where a checkpoint left them. Keys of the identity in
/// `accepted` may differ.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused when it is damaged, or was made with
///         another configuration, model or data set
[[nodiscard]] TrainState restore_snapshot(Session& session, const std::string& checkpoint,
                                          std::span<const std::string> accepted = {});

/// Refuses a NaN or an infinity among parameters and moments that came from `source`, a directory;
/// when it is allowed, warns.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused naming the first tensor
void check_finite(const Session& session, const std::string& source, bool is_allowed);

}  // namespace tributary::train
