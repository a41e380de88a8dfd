#include "cost/stages/rank_groups.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::cost {
namespace {

/// Ranks of a mesh as axes that vary together: `outer` blocks, in each of them `stride` interleaved
/// groups whose `size` members are `stride` apart.
struct Axes {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

class StageRanks {
 public:
  StageRanks(const config::Cluster& cluster, std::span<const std::int64_t> ranks)
      : cluster_(cluster), ranks_(ranks) {}

  [[nodiscard]] CommunicationGroup narrowest(const Axes& axes) const {
    CommunicationGroup worst{.ranks = axes.size, .ranks_per_node = axes.size};
    if (axes.size == 1) return worst;
    std::vector<std::int64_t> members(static_cast<std::size_t>(axes.size));
    const std::int64_t block = axes.size * axes.stride;
    for (std::int64_t first = 0; first < std::ssize(ranks_); ++first) {
      if (first % block >= axes.stride) continue;
      for (std::int64_t i = 0; i < axes.size; ++i) members[i] = ranks_[first + i * axes.stride];
      const CommunicationGroup group = group_of(cluster_, members);
      worst.ranks_per_node = std::min(worst.ranks_per_node, group.ranks_per_node);
      worst.level = std::max(worst.level, group.level);
    }
    return worst;
  }

 private:
  const config::Cluster& cluster_;
  std::span<const std::int64_t> ranks_;  // of one pp coordinate
};

CommunicationGroup ends_of(const config::ModulePlan& module, const config::Cluster& cluster) {
  const config::MeshShape& mesh = module.mesh;
  const std::int64_t stage = mesh.world() / mesh.pp;
  CommunicationGroup worst{.ranks = 2, .ranks_per_node = 2};
  if (mesh.pp == 1) return {};
  for (std::int64_t rank = 0; rank < stage; ++rank) {
    const std::int64_t pair[] = {module.ranks[rank], module.ranks[rank + (mesh.pp - 1) * stage]};
    const CommunicationGroup group = group_of(cluster, pair);
    worst.ranks_per_node = std::min(worst.ranks_per_node, group.ranks_per_node);
    worst.level = std::max(worst.level, group.level);
  }
  return worst;
}

}  // namespace

std::vector<RankGroups> groups_of(const config::ModulePlan& module,
                                  const config::Cluster& cluster) {
  const config::MeshShape& mesh = module.mesh;
  TRIB_CHECK(mesh.world() == std::ssize(module.ranks),
             .what = "cost: module has not the ranks of its mesh", .where = module.name,
             .found = str(module.ranks.size()), .expected = str(mesh.world()));
  const std::int64_t stage = mesh.world() / mesh.pp;
  const std::int64_t sequence = mesh.cp * mesh.ulysses;
  const std::int64_t shard = mesh.dp_shard * sequence;
  const CommunicationGroup ends = ends_of(module, cluster);
  std::vector<RankGroups> groups;
  for (std::int64_t pp = 0; pp < mesh.pp; ++pp) {
    const StageRanks ranks(cluster, std::span(module.ranks).subspan(pp * stage, stage));
    groups.push_back({
        .tp = ranks.narrowest({mesh.tp, 1}),
        .ulysses = ranks.narrowest({mesh.ulysses, mesh.tp}),
        .cp = ranks.narrowest({mesh.cp, mesh.ulysses * mesh.tp}),
        .sequence = ranks.narrowest({sequence, mesh.tp}),
        .shard = ranks.narrowest({shard, mesh.tp}),
        .replicate = ranks.narrowest({mesh.dp_replicate, shard * mesh.tp}),
        .expert = ranks.narrowest({mesh.ep, mesh.tp}),
        .expert_shard = ranks.narrowest({shard / mesh.ep, mesh.ep * mesh.tp}),
        .ends = ends,
    });
  }
  return groups;
}

}  // namespace tributary::cost
