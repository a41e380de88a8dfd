#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/sample_shape.h"
#include "model/encoder/encoder.h"
#include "parallel/layout.h"
#include "parallel/sequence/row_route.h"
#include "parallel/sequence/token_split.h"

namespace tributary::model {

/// Images and clips of a pack as one input of a tower.
struct Media {
  at::Tensor rows;          // [input rows, width]; undefined where the tower is on other ranks
  std::vector<Grid> grids;  // modality after modality
  at::Tensor places;        // [tokens] i64, on the host: the placeholder of each
};

/// The part of a pack's media that one rank encodes, and the route of features from all ranks to
/// those that keep their placeholders.
struct MediaShare {
  Media own;  // without places; empty where there are fewer items than ranks
  parallel::RowRoute route;
};

/// Shares the media of a pack over the ranks of a replica by share_items (core/place_items.h); the
/// same on all ranks of the replica.
///
[[nodiscard]] MediaShare share_media(const Media& media, const Encoder& encoder,
                                     const parallel::TokenSplit& split,
                                     const parallel::Layout& layout, at::Device device);

}  // namespace tributary::model
