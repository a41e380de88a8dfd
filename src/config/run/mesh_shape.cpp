#include "config/run/mesh_shape.h"

#include <array>

#include "config/run/run_config.h"
#include "core/error.h"

namespace tributary::config {
namespace {

struct AxisOfRank {
  std::int64_t MeshShape::*size;
  std::int64_t MeshCoordinates::*at;
};

constexpr std::array<AxisOfRank, 6> kAxes{{
    {&MeshShape::pp, &MeshCoordinates::pp},
    {&MeshShape::dp_replicate, &MeshCoordinates::dp_replicate},
    {&MeshShape::dp_shard, &MeshCoordinates::dp_shard},
    {&MeshShape::cp, &MeshCoordinates::cp},
    {&MeshShape::ulysses, &MeshCoordinates::ulysses},
    {&MeshShape::tp, &MeshCoordinates::tp},
}};

}  // namespace

MeshCoordinates coordinates_of(const MeshShape& shape, std::int64_t rank) {
  TRIB_CHECK(rank >= 0 && rank < shape.world(), .what = "config: rank is not in the mesh",
             .where = describe(shape), .found = str("rank ", rank),
             .expected = str("0 to ", shape.world() - 1));
  MeshCoordinates coordinates;
  for (auto axis = kAxes.rbegin(); axis != kAxes.rend(); ++axis) {
    coordinates.*(axis->at) = rank % shape.*(axis->size);
    rank /= shape.*(axis->size);
  }
  return coordinates;
}

std::int64_t rank_of(const MeshShape& shape, const MeshCoordinates& coordinates) {
  std::int64_t rank = 0;
  for (const AxisOfRank& axis : kAxes) {
    const std::int64_t size = shape.*(axis.size);
    const std::int64_t at = coordinates.*(axis.at);
    TRIB_CHECK(at >= 0 && at < size, .what = "config: coordinate is not in the mesh",
               .where = describe(shape), .found = str(at), .expected = str("0 to ", size - 1));
    rank = rank * size + at;
  }
  return rank;
}

std::string describe(const MeshShape& shape) {
  return str("pp ", shape.pp, ", dp_replicate ", shape.dp_replicate, ", dp_shard ", shape.dp_shard,
             ", cp ", shape.cp, ", ulysses ", shape.ulysses, ", tp ", shape.tp);
}

std::vector<std::pair<std::string, Degree>> degrees_of(const ParallelSection& parallel) {
  return {{"parallel.pp", parallel.pp},
          {"parallel.dp_replicate", parallel.dp_replicate},
          {"parallel.dp_shard", parallel.dp_shard},
          {"parallel.cp", parallel.cp},
          {"parallel.ulysses", parallel.ulysses},
          {"parallel.tp", parallel.tp},
          {"parallel.ep", parallel.ep}};
}

}  // namespace tributary::config
