#pragma once

#include <cstdint>

#include "plan/chains/chain_tables.h"

namespace tributary::plan {

/// How long lanes with `stages` of them take at least for `work` ns of each of M equal microbatches
/// on the whole chain: stage s must wait for those before it, so it has to have less.
///
/// With a share of the work before it that is due ahead, the last of equal-ended stages ends at
/// work * share / (1 - (1 - share / M)^stages).
[[nodiscard]] double pipeline_time(double work, double share, std::int64_t stages,
                                   std::int64_t microbatches);

/// Least time of the busiest of so many ranks that share the units of a chain, whole ones, however
/// they are put together.
[[nodiscard]] double busiest_rank(const UnitTimes& units, std::int64_t blocks, std::int64_t ranks);

}  // namespace tributary::plan
