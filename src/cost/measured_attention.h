#pragma once

#include <vector>

#include "config/artifact/profile.h"
#include "cost/layer_cost.h"

namespace tributary::cost {

/// Time of the attention core of one layer in one pass.
struct AttentionTime {
  double forward = 0;  // [ns]
  double gradient = 0;
  bool outside_grid = false;  // items attend with more than was measured
};

/// Time of attention by measured points. An item takes time by how many it attends with: linear
/// between two points, below the first as there, above the last in proportion. So sequences of one
/// length take what was measured at that length, and a mixture takes the time at its mean over the
/// items. No points: no time.
///
/// units:  `pass.squared_tokens` counts the pairs that attend; points as raise_attention leaves
///         them
/// source: docs/theory/planning.md, "Measured tables"
[[nodiscard]] AttentionTime attention_time(const std::vector<config::MeasuredAttention>& points,
                                           const PassShape& pass);

/// Makes points of which each attends with more than the one before and takes no less time per
/// item: those that contradict each other share the mean of their items. All have equally many
/// items afterwards.
[[nodiscard]] std::vector<config::MeasuredAttention> raise_attention(
    std::vector<config::MeasuredAttention> points);

/// Items of each point that raise_attention makes: whole nanoseconds then tell rates apart.
inline constexpr Tokens kItemsOfRaisedPoint{1 << 20};

}  // namespace tributary::cost
