#pragma once

#include "cost/stages/stage_parts.h"
#include "plan/chains/chain_tables.h"

namespace tributary::plan {

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
