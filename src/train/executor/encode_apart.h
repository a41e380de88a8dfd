#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "model/model.h"
#include "train/placement/run_lanes.h"

namespace tributary::train {

/// Media of one forward without backward, where encoders have ranks of their own.
struct ForwardMedia {
  DealtItems items = {};  // one round for each edge, the same on all ranks
  std::map<std::string, model::EncoderInput> inputs = {};  // that this rank encodes, by encoder
};

/// What model::PackedBatch::encode_apart calls: runs this rank's part of the encoders, and brings
/// the features to the first stage of the backbone. Model, run and media must outlive it.
[[nodiscard]] std::function<model::Features(bool tokens_are_whole)> encode_apart(
    model::Model& model, const RunLanes& run, const ForwardMedia& media);

}  // namespace tributary::train
