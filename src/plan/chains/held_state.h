#pragma once

#include "cost/stages/stage_parts.h"
#include "plan/chains/chain_tables.h"

namespace tributary::plan {

/// What all ranks of a shard group hold of a state each, and what they share.
struct HeldState {
  double whole = 0;   // [bytes]
  double shared = 0;  // [bytes] of a rank with the fewest shards of the form

  /// On a rank with so many times as many shards.
  [[nodiscard]] double of_rank(double times) const { return whole + shared / times; }
};

/// What a state, as ChainTables sums it up, is at least with more shards.
[[nodiscard]] HeldState split_state(const cost::StageRules& rules, const ChainForm& form,
                                    const ChainState& state);

}  // namespace tributary::plan
