#pragma once

#include "train/checkpoint/compatibility.h"
#include "train/start/session.h"

namespace tributary::train {

/// The identity of an opened run: describe_identity of its configuration, and what lies behind it:
/// `model.shape`, `optimizer.kind`, and digests of the tokenizer, the chat template, the image
/// settings (preprocessor_config.json) and the data (files and first images).
///
/// errors: Fault::kResource when a file of the model cannot be read
[[nodiscard]] RunIdentity identify(const Session& session);

}  // namespace tributary::train
