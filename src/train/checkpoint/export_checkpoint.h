#pragma once

#include <string>

#include "core/file/file_system.h"

namespace tributary::train {

enum class Exported { kModel, kAdapter };

/// Writes the model of a checkpoint as a directory that transformers loads; of a run with adapters
/// these alone, for PEFT, unless they are `merged` into the weights.
///
/// Tensors are stored under the names of released checkpoints, so they are streamed, verified block
/// by block, and no model is built. `model_directory` gives config.json and the tokenizer; empty:
/// the one that the run recorded.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused on damage; Fault::kInput when the output
///         exists, the model directory is gone, its config.json is of another model, or there is no
///         adapter to merge: nothing is written then
/// cost:   memory of the largest tensor; three times that where adapters are merged
Exported export_checkpoint(const std::string& checkpoint, const std::string& model_directory,
                           const std::string& output, bool merged = false,
                           FileSystem& files = real_file_system());

}  // namespace tributary::train
