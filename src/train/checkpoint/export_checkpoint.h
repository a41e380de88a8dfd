#pragma once

#include <string>

#include "core/file/file_system.h"

namespace tributary::train {

enum class Exported { kModel, kAdapter };

struct ExportOptions {
  std::string model_directory = {};  // gives config.json and tokenizer; empty: that of the run
  bool merged = false;               // adapters are added to the weights
  bool averaged = false;             // the averages of optimizer.ema_decay, where there are some
};

/// Writes the model of a checkpoint as a directory that transformers loads; of a run with adapters
/// these alone, for PEFT, unless they are merged into the weights.
///
/// Tensors are stored under the names of released checkpoints, so they are streamed, verified block
/// by block, and no model is built.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused on damage; Fault::kInput when the output
///         exists, the model directory is gone, its config.json is of another model, or there is no
///         adapter to merge or no average: nothing is written then
/// cost:   memory of the largest tensor; three times that where adapters are merged
Exported export_checkpoint(const std::string& checkpoint, const std::string& output,
                           const ExportOptions& options = {},
                           FileSystem& files = real_file_system());

}  // namespace tributary::train
