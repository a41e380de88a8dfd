#include "mesh/mesh.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.h"
#include "mesh/meet_pairs.h"

namespace tributary::mesh {
namespace {

using config::MeshCoordinates;
using config::MeshShape;

/// The axes in which the ranks of a group may differ.
struct Axes {
  bool dp_replicate = false;
  bool dp_shard = false;
  bool cp = false;
  bool ulysses = false;
  bool tp = false;
  bool pp = false;

  [[nodiscard]] bool join(const MeshCoordinates& a, const MeshCoordinates& b) const {
    return (pp || a.pp == b.pp) && (dp_replicate || a.dp_replicate == b.dp_replicate) &&
           (dp_shard || a.dp_shard == b.dp_shard) && (cp || a.cp == b.cp) &&
           (ulysses || a.ulysses == b.ulysses) && (tp || a.tp == b.tp);
  }
};

std::vector<int> all_of(const World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

const World& one_rank() {
  static const World world;
  return world;
}

}  // namespace

Mesh::Mesh() : world_(&one_rank()) {}

Mesh::Mesh(const MeshShape& shape, const World& world, std::int64_t kv_heads,
           const std::string& module)
    : Mesh(module, shape, all_of(world), world, kv_heads) {}

Mesh::Mesh(const std::string& module, const MeshShape& shape, std::vector<int> ranks,
           const World& world, std::int64_t kv_heads)
    : shape_(shape), ranks_(std::move(ranks)), world_(&world) {
  TRIB_CHECK(std::ssize(ranks_) == shape.world(), .what = "mesh: not one rank for each place",
             .where = module, .found = tributary::str(ranks_.size(), " ranks"),
             .expected = config::describe(shape));
  const auto place = std::ranges::find(ranks_, world.rank()) - ranks_.begin();
  is_here_ = place < std::ssize(ranks_);
  if (is_here_) {
    at_ = config::coordinates_of(shape, place);
    open_groups(module.empty() ? "" : module + ".", kv_heads);
  }
  world.meet();
}

// In one order on all ranks: to open a group is itself a meeting of its members.
void Mesh::open_groups(const std::string& module, std::int64_t kv_heads) {
  const auto members = [&](const Axes& axes) {
    std::vector<int> ranks;
    for (std::int64_t place = 0; place < shape_.world(); ++place)
      if (axes.join(at_, config::coordinates_of(shape_, place)))
        ranks.push_back(ranks_[static_cast<std::size_t>(place)]);
    return ranks;
  };
  const auto along = [&](const char* name, const Axes& axes) {
    return world_->open(module + name, members(axes));
  };
  shard_ = along("shard", {.dp_shard = true, .cp = true, .ulysses = true});
  shard_reduce_ = along("shard_reduce", {.dp_shard = true, .cp = true, .ulysses = true});
  replicate_ = along("dp_replicate", {.dp_replicate = true});
  sequence_ = along("cp.ulysses", {.cp = true, .ulysses = true});
  cp_ = along("cp", {.cp = true});
  ulysses_ = along("ulysses", {.ulysses = true});
  tp_ = along("tp", {.tp = true});
  const std::vector<int> chain = members({.pp = true});
  constexpr std::array<const char*, 4> kLinks{"pp.activations.down", "pp.activations.up",
                                              "pp.gradients.down", "pp.gradients.up"};
  for (std::size_t link = 0; link < kLinks.size(); ++link)
    stages_[link] = world_->open(module + kLinks[link], chain, GroupUse::kMessages);
  const bool is_end = at_.pp == 0 || at_.pp + 1 == shape_.pp;
  if (shape_.pp > 1 && is_end)
    end_stages_ = world_->open(module + "pp.ends", {chain.front(), chain.back()});
  if (kv_heads > 0 && shape_.tp > kv_heads) {
    const std::int64_t copies = shape_.tp / kv_heads;
    std::vector<int> ranks = members({.tp = true});
    const auto first = ranks.begin() + at_.tp / copies * copies;
    kv_replicas_ = world_->open(module + "tp.kv_replicas", std::vector<int>(first, first + copies));
  }
  for (const Group& link : stages_)
    meet_pairs(link, stage_pairs(static_cast<int>(shape_.pp)), world_->device());
}

std::int64_t Mesh::data_index_of(int rank) const {
  const auto place = std::ranges::find(ranks_, rank) - ranks_.begin();
  if (place == std::ssize(ranks_)) return -1;
  return data_index_at(config::coordinates_of(shape_, place));
}

std::vector<std::pair<int, int>> stage_pairs(int stages) {
  std::vector<std::pair<int, int>> pairs;
  for (int stage = 0; stage + 1 < stages; ++stage) pairs.emplace_back(stage, stage + 1);
  if (stages > 2) pairs.emplace_back(stages - 1, 0);
  return pairs;
}

}  // namespace tributary::mesh
