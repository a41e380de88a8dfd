#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/family/model_config.h"

namespace tributary::config {

struct Degree;
struct ParallelSection;

/// Ranks along each axis of the mesh, outermost first; axes of size 1 exist.
struct MeshShape {
  std::int64_t pp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;
  std::int64_t cp = 1;
  std::int64_t ulysses = 1;
  std::int64_t tp = 1;
  std::int64_t ep = 1;  // a view of the same ranks, so no factor of world()

  [[nodiscard]] std::int64_t world() const {
    return pp * dp_replicate * dp_shard * cp * ulysses * tp;
  }
  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};

/// Where a rank stands on each axis, from 0.
struct MeshCoordinates {
  std::int64_t pp = 0;
  std::int64_t dp_replicate = 0;
  std::int64_t dp_shard = 0;
  std::int64_t cp = 0;
  std::int64_t ulysses = 0;
  std::int64_t tp = 0;

  friend bool operator==(const MeshCoordinates&, const MeshCoordinates&) = default;
};

/// Finds the coordinates of a rank; tp changes fastest, pp slowest.
///
/// errors: Fault::kBug when rank is not in [0, world)
/// source: docs/theory/parallelism.md, "Axes of a mesh"
[[nodiscard]] MeshCoordinates coordinates_of(const MeshShape& shape, std::int64_t rank);

/// The inverse of coordinates_of.
///
/// errors: Fault::kBug when a coordinate is not in [0, size of its axis)
[[nodiscard]] std::int64_t rank_of(const MeshShape& shape, const MeshCoordinates& coordinates);

/// `pp 1, dp_replicate 1, dp_shard 4, cp 1, ulysses 1, tp 2`
[[nodiscard]] std::string describe(const MeshShape& shape);

/// The degree of each axis with its key, outermost first, ep last.
[[nodiscard]] std::vector<std::pair<std::string, Degree>> degrees_of(
    const ParallelSection& parallel);

/// Finds the mesh of the backbone in a run of `world` ranks, with the stages of the vision tower
/// where `parallel.vision_stages` counts them. It replaces `auto` by the degree that the other axes
/// leave of the ranks without those of separate modules, and checks that the model can be cut so:
/// the axes multiply to the ranks, heads and widths divide over tp and ulysses, key-value heads
/// divide or are repeated. A vocabulary may be indivisible: the block pads it. The modules are
/// checked with the degrees that each of them has, as place_modules does.
///
/// errors: Fault::kInput that lists every rule that is broken with key, value and the nearest
///         values that keep it
/// source: docs/theory/parallelism.md, "What must divide"
[[nodiscard]] MeshShape resolve_mesh(const ParallelSection& parallel, std::int64_t world,
                                     const ModelConfig& model);

}  // namespace tributary::config
