#include "train/balance/replica_readers.h"

#include <algorithm>

#include "config/run/mesh_shape.h"
#include "mesh/exchange_bytes.h"

namespace tributary::train {

ReplicaReaders::ReplicaReaders(const parallel::Layout& layout)
    : readers_(static_cast<std::size_t>(layout.mesh->data_ranks())),
      replica_(layout.mesh->data_index()) {
  const config::MeshShape& shape = layout.mesh->shape();
  for (int rank = 0; rank < layout.mesh->size(); ++rank) {
    const config::MeshCoordinates at = config::coordinates_of(shape, rank);
    const std::int64_t replica = at.dp_replicate * shape.dp_shard + at.dp_shard;
    if (replica == replica_) ranks_.push_back(rank);
    if (at.pp != layout.holder(0)) continue;
    std::vector<int>& readers = readers_[static_cast<std::size_t>(replica)];
    if (rank == layout.mesh->rank()) own_ = std::ssize(readers);
    readers.push_back(rank);
  }
}

std::vector<std::string> ReplicaReaders::pass_on(
    const mesh::Group& world, const std::function<std::string(data::MediaRows)>& write) const {
  const std::vector<int>& readers = readers_[static_cast<std::size_t>(replica_)];
  std::vector<std::string> to_each(static_cast<std::size_t>(world.size()));
  for (const int rank : ranks_) {
    if (own_ < 0 || rank == world.ranks()[static_cast<std::size_t>(world.index())]) continue;
    const bool takes_pixels = std::ranges::find(readers, rank) != readers.end();
    to_each[static_cast<std::size_t>(rank)] =
        write(takes_pixels ? data::MediaRows::kWith : data::MediaRows::kWithout);
  }
  std::vector<std::string> from_each = mesh::exchange_bytes(world, to_each);
  std::vector<std::string> from_readers;
  for (const int reader : readers)
    from_readers.push_back(std::move(from_each[static_cast<std::size_t>(reader)]));
  return from_readers;
}

}  // namespace tributary::train
