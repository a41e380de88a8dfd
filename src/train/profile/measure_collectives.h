#pragma once

#include <cstdint>
#include <vector>

#include "config/artifact/profile.h"
#include "mesh/mesh.h"

namespace tributary::train {

/// How a collective is timed: medians over the calls, the mean over the ranks.
struct CollectiveOptions {
  int warm_up = 3;
  int calls = 21;
};

/// The grid of full-buffer sizes: powers of four from 1 KiB, up to 16 MiB.
[[nodiscard]] std::vector<Bytes> collective_sizes();

/// Times one collective of f32 values over a group; of a send, one way between neighbours, all of
/// which send at once.
///
/// shape: bytes divide over the ranks as f32 values
/// collective: over the meshes; `replicas` has all ranks on dp_replicate, `stages` all on pp
[[nodiscard]] config::MeasuredCollective measure_collective(config::CollectiveOp op,
                                                            const mesh::Mesh& replicas,
                                                            const mesh::Mesh& stages, Bytes bytes,
                                                            c10::Device device,
                                                            const CollectiveOptions& options);

}  // namespace tributary::train
