#pragma once

#include <cstddef>

#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// The number of microbatches that all replicas run: the first one from the fullest replica's on
/// that the orders of all modules accept.
///
/// errors: Fault::kInput naming the order that accepts none, or all orders when they have no common
///         number
[[nodiscard]] int count_rounds(const Pipeline& pipeline, std::size_t fullest);

}  // namespace tributary::schedule
