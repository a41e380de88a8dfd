#pragma once

#include <vector>

#include "schedule/pipeline/pipeline.h"

namespace tributary::simulate {

/// Replicas that are simulated once, each for several: symmetric replicas have equal inputs.
struct ReplicaFolding {
  std::vector<int> stands_for;  // [modules of the pipeline] replicas of the plan for each simulated
};

/// The pipeline that is simulated: replicas with equal inputs once.
struct FoldedPipeline {
  schedule::Pipeline pipeline;
  ReplicaFolding folding;
};
/// Folds all replicas of each module into one where `all_equal`, none else.
[[nodiscard]] FoldedPipeline fold_replicas(const schedule::Pipeline& pipeline, bool all_equal);

}  // namespace tributary::simulate
