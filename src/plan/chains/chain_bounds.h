#pragma once

#include <cstdint>

#include "cost/stages/stage_parts.h"
#include "plan/chains/chain_tables.h"

namespace tributary::plan {

/// Lower bound [ns] on a pipeline of `stages` stages with M equal microbatches that take `work` ns
/// each on the whole chain. Later stages start later, so the best cut gives them less work.
/// || `share` is the part of the work before a stage that must be done before the stage starts.
/// When all stages end together, that is at work * share / (1 - (1 - share / M)^stages).
[[nodiscard]] double pipeline_time(double work, double share, std::int64_t stages,
                                   std::int64_t microbatches);

/// Lower bound [ns] on the busiest of `ranks` ranks that share the units of a chain, whatever the
/// order of the units; units stay whole.
[[nodiscard]] double busiest_rank(const UnitTimes& units, std::int64_t blocks, std::int64_t ranks);

/// The state of a shard group: what every rank holds in full, and what the ranks divide.
struct HeldState {
  double whole = 0;   // [bytes] on every rank, however many shards there are
  double shared = 0;  // [bytes] on a rank with the form's min number of shards

  /// Bytes of a rank with `times` times as many shards.
  [[nodiscard]] double of_rank(double times) const { return whole + shared / times; }
};

/// Lower bound on the state of a rank with more shards; `state` is a sum of ChainTables.
[[nodiscard]] HeldState split_state(const cost::StageRules& rules, const ChainForm& form,
                                    const ChainState& state);

}  // namespace tributary::plan
