#pragma once

#include <cstddef>

#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// The number of microbatches that all replicas run: the least from what the fullest one has that
/// the orders of all modules can take.
///
/// errors: Fault::kInput naming the order that takes none, or all where none is for all
[[nodiscard]] int count_rounds(const Pipeline& pipeline, std::size_t fullest);

}  // namespace tributary::schedule
