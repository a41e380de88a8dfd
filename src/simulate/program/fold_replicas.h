#pragma once

#include <vector>

#include "schedule/pipeline/pipeline.h"

namespace tributary::simulate {

/// Replicas that are simulated once for several: symmetric replicas with equal inputs.
struct ReplicaFolding {
  std::vector<int> stands_for;  // [modules of the pipeline] replicas for each simulated one
};

/// The simulated pipeline, in which equal replicas appear once.
struct FoldedPipeline {
  schedule::Pipeline pipeline;
  ReplicaFolding folding;
};
/// Folds all replicas of each module into one where `all_equal`, those that take turns with the
/// backbone into one for each of its stages; otherwise folds nothing.
[[nodiscard]] FoldedPipeline fold_replicas(const schedule::Pipeline& pipeline, bool all_equal);

}  // namespace tributary::simulate
