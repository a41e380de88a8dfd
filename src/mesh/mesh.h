#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/run/mesh_shape.h"
#include "mesh/world.h"

namespace tributary::mesh {

/// What travels between pipeline stages, and which way. Each kind has a link of its own, so that no
/// message waits behind one of another kind.
enum class StageLink : std::uint8_t {
  kActivationsDown,  // to a higher pp coordinate
  kActivationsUp,
  kGradientsDown,
  kGradientsUp,
};

/// The ranks of a module as a grid with named axes, and the groups in which they communicate.
///
/// On a mesh of one rank every group is single and every collective the identity. A rank that is
/// not in the mesh has only single groups, and leads nothing.
class Mesh {
 public:
  /// One rank, the only one of its world.
  Mesh();
  /// `module` begins the names of the groups; empty for the backbone. `ranks` are those of the
  /// world in the order of the grid; `kv_heads` are those of a backbone, 0: kv_replicas() is
  /// single.
  ///
  /// collective: over all ranks of the world, which construct their meshes in one order
  /// errors: Fault::kResource when a rank does not come within the timeout
  Mesh(const std::string& module, const config::MeshShape& shape, std::vector<int> ranks,
       const World& world, std::int64_t kv_heads = 0);
  /// All ranks of the world.
  Mesh(const config::MeshShape& shape, const World& world, std::int64_t kv_heads = 0,
       const std::string& module = "");

  [[nodiscard]] const config::MeshShape& shape() const { return shape_; }
  [[nodiscard]] const config::MeshCoordinates& at() const { return at_; }  // of this rank
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// Ranks of the world, in the order of the grid.
  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  /// Whether this rank is one of them.
  [[nodiscard]] bool is_here() const { return is_here_; }

  /// All ranks of the job, for numbers and texts of the host.
  [[nodiscard]] const Group& world() const { return world_->all(); }
  [[nodiscard]] const World& all_ranks() const { return *world_; }
  /// dp_shard x cp x ulysses: the ranks over which parameters are sharded.
  [[nodiscard]] const Group& shard() const { return shard_; }
  /// The same ranks on a second communicator, so that reductions do not queue behind gathers.
  [[nodiscard]] const Group& shard_reduce() const { return shard_reduce_; }
  [[nodiscard]] const Group& replicate() const { return replicate_; }
  /// cp x ulysses: the ranks that hold different tokens of one pack.
  [[nodiscard]] const Group& sequence() const { return sequence_; }
  [[nodiscard]] const Group& cp() const { return cp_; }
  [[nodiscard]] const Group& ulysses() const { return ulysses_; }
  [[nodiscard]] const Group& tp() const { return tp_; }
  /// The pipeline stages of this rank's replica, for messages: the index is the pp coordinate.
  [[nodiscard]] const Group& stages(StageLink link) const {
    return stages_[static_cast<std::size_t>(link)];
  }
  /// The first and the last stage of this rank's replica; this rank alone if it is neither.
  [[nodiscard]] const Group& end_stages() const { return end_stages_; }
  /// The tp ranks that hold the same key and value heads: tp / kv_heads neighbours, or this rank
  /// alone where heads are not fewer than ranks.
  [[nodiscard]] const Group& kv_replicas() const { return kv_replicas_; }

  /// Replicas of the module that take different samples, and which of them this rank belongs to; -1
  /// where it is not in the mesh.
  [[nodiscard]] std::int64_t data_ranks() const { return shape_.dp_replicate * shape_.dp_shard; }
  [[nodiscard]] std::int64_t data_index() const { return is_here_ ? data_index_at(at_) : -1; }
  /// The same of another rank of the world.
  [[nodiscard]] std::int64_t data_index_of(int rank) const;
  /// Whether this rank counts for its replica where a sum must take every sample once.
  [[nodiscard]] bool leads_replica() const { return at_.pp == 0 && leads_stage(); }
  /// Whether this rank counts for its stage, in sums of what only the stage knows.
  [[nodiscard]] bool leads_stage() const {
    return is_here_ && at_.cp == 0 && at_.ulysses == 0 && at_.tp == 0;
  }

 private:
  [[nodiscard]] std::int64_t data_index_at(const config::MeshCoordinates& at) const {
    return at.dp_replicate * shape_.dp_shard + at.dp_shard;
  }
  void open_groups(const std::string& module, std::int64_t kv_heads);

  config::MeshShape shape_;
  config::MeshCoordinates at_;
  std::vector<int> ranks_ = {0};
  bool is_here_ = true;
  const World* world_;
  Group shard_, shard_reduce_, replicate_, sequence_, cp_, ulysses_, tp_, kv_replicas_, end_stages_;
  std::array<Group, 4> stages_;  // by StageLink
};

/// The pairs of pp coordinates between which messages pass, whatever the order of the schedule, in
/// one order on all ranks: neighbours, and the last one with the first, where the next round of
/// virtual stages begins.
[[nodiscard]] std::vector<std::pair<int, int>> stage_pairs(int stages);

}  // namespace tributary::mesh
