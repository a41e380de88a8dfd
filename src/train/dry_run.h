#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>

#include "train/start/memory_need.h"
#include "train/start/start_block.h"
#include "train/trainer.h"

namespace tributary::train {

/// A job that is only looked at.
struct DryRun {
  std::int64_t ranks = 1;
  Bytes memory = {};  // of one rank, of its device where it has one; 0: not judged
};

/// What a run would be.
struct ImaginedRun {
  MemoryNeed need = {};                     // of the rank that needs most
  std::optional<data::DataSize> data = {};  // null where the model's tokenizer is not there
};

/// Says what a job of so many ranks would be, without starting it: the lines at the start of a run,
/// with the memory of the rank that needs most. Needs no device, and only config.json of the model;
/// records are counted where its tokenizer is there too.
///
/// errors: Fault::kInput for degrees or a plan that do not fit the ranks; Fault::kResource where
///         the model does not fit into the memory, whatever its batch
[[nodiscard]] ImaginedRun look_at_run(const TrainRequest& request, const DryRun& job,
                                      std::ostream& out);

}  // namespace tributary::train
