#pragma once

#include <span>

#include "mesh/mesh.h"
#include "train/balance/predict_load.h"
#include "train/placement/run_lanes.h"

namespace tributary::train {

/// A rank and the modules that it computes.
struct RankWork {
  const config::ModelConfig& model;
  const config::ModelSection& section;
  const RunLanes& lanes;
  const mesh::Mesh& backbone;
  const MeasuredTimes* times = nullptr;  // of batch.costs
};

/// What this rank adds to the work of a step. The first rank of a replica counts for it, and the
/// first rank of a seat for its media. Where an encoder has a mesh of its own, each rank has its
/// part of `time`: the ranks of a replica, or of a seat, share its time equally.
///
/// shape: `shapes` are the samples of this rank's replica, `items` the media of the step
[[nodiscard]] WorkLoad load_of_rank(const RankWork& work, std::span<const SampleShape> shapes,
                                    const DealtItems& items);

/// Over how many parts those of all ranks add up.
[[nodiscard]] LoadParts parts_of_load(const config::ModelConfig& model, const RunLanes& lanes,
                                      const mesh::Mesh& backbone);

}  // namespace tributary::train
