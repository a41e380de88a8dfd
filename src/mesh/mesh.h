#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "config/run/mesh_shape.h"
#include "mesh/transport/group.h"

namespace c10d {
class Store;
}

namespace tributary::mesh {

struct MeshOptions {
  c10::Device device = c10::kCPU;  // decides the transport: messages of the host, or NCCL
  double timeout_seconds = 60;     // of one collective; of world() and saving() at least 600
  std::string interface;           // of sockets; empty: that of the host's name
  bool shares_memory = false;      // all ranks are on this machine: messages need no socket
  int first_of_backbone = 0;       // pp coordinate; end_stages() begins there
  std::int64_t kv_heads = 0;       // of the backbone; 0: kv_replicas() is single
  // Called as soon as a collective of any group but saving() is under way, by the thread that
  // issued it.
  std::function<void()> on_collective = {};
};

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
/// On a mesh of one rank every group is single and every collective the identity.
class Mesh {
 public:
  /// One rank.
  Mesh() = default;
  /// collective: over all ranks of the shape, which construct it at the same time
  /// errors: Fault::kResource when a rank does not come within the timeout
  Mesh(const config::MeshShape& shape, int rank, const c10::intrusive_ptr<c10d::Store>& store,
       const MeshOptions& options);

  [[nodiscard]] const config::MeshShape& shape() const { return shape_; }
  [[nodiscard]] const config::MeshCoordinates& at() const { return at_; }  // of this rank
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(shape_.world()); }

  /// All ranks, for numbers and texts of the host: on CUDA too they go over messages of the host.
  [[nodiscard]] const Group& world() const { return world_; }
  /// As world(), for the thread that writes checkpoints: a group serves one thread.
  [[nodiscard]] const Group& saving() const { return saving_; }
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
  /// The first and the last stage of the backbone in this rank's replica; this rank alone if it is
  /// neither.
  [[nodiscard]] const Group& end_stages() const { return end_stages_; }
  /// The tp ranks that hold the same key and value heads: tp / kv_heads neighbours, or this rank
  /// alone where heads are not fewer than ranks.
  [[nodiscard]] const Group& kv_replicas() const { return kv_replicas_; }

  /// Replicas of the model that take different samples, and which of them this rank belongs to.
  [[nodiscard]] std::int64_t data_ranks() const { return shape_.dp_replicate * shape_.dp_shard; }
  [[nodiscard]] std::int64_t data_index() const { return data_index_of(rank_); }
  [[nodiscard]] std::int64_t data_index_of(int rank) const;
  /// Whether this rank counts for its replica where a sum must take every sample once.
  [[nodiscard]] bool leads_replica() const { return at_.pp == 0 && leads_stage(); }
  /// Whether this rank counts for its stage, in sums of what only the stage knows.
  [[nodiscard]] bool leads_stage() const { return at_.cp == 0 && at_.ulysses == 0 && at_.tp == 0; }
  /// Sums over all groups but saving(), whose thread computes nothing while it waits.
  [[nodiscard]] Traffic traffic() const;

 private:
  config::MeshShape shape_;
  config::MeshCoordinates at_;
  int rank_ = 0;
  Group world_, saving_, shard_, shard_reduce_, replicate_, sequence_, cp_, ulysses_, tp_,
      kv_replicas_, end_stages_;
  std::array<Group, 4> stages_;  // by StageLink
};

/// The pairs of pp coordinates between which messages pass, whatever the order of the schedule, in
/// one order on all ranks: neighbours, and the last one with the first of the backbone, where the
/// next round of its virtual stages begins.
[[nodiscard]] std::vector<std::pair<int, int>> stage_pairs(int stages, int first_of_backbone);

}  // namespace tributary::mesh
