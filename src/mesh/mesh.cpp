#include "mesh/mesh.h"

#include <algorithm>
#include <array>

#include <ATen/ATen.h>

#include "core/text.h"
#include "mesh/transport/transports.h"

namespace tributary::mesh {
namespace {

using config::MeshCoordinates;
using config::MeshShape;

/// Timeout [s] of the groups used while loading and saving, where ranks take very different times.
/// Health (health.h) finds ranks that are lost or make no progress meanwhile.
constexpr double kFileTimeout = 86'400;

constexpr const char* kSaving = "saving";

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

std::vector<int> members(const MeshShape& shape, const MeshCoordinates& at, const Axes& axes) {
  std::vector<int> ranks;
  for (std::int64_t rank = 0; rank < shape.world(); ++rank)
    if (axes.join(at, config::coordinates_of(shape, rank))) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

/// NCCL connects a pair at its first message, and both wait for it: in one order on all ranks, or a
/// stage that first receives on one link would wait for one that first receives on another.
void meet_stages(const Group& link, int first_of_backbone, c10::Device device) {
  const at::Tensor nothing = at::zeros({1}, at::TensorOptions(device));
  for (const auto& [from, to] : stage_pairs(link.size(), first_of_backbone)) {
    if (link.index() == from) link.send(nothing, to, /*tag=*/0).wait();
    if (link.index() == to) link.receive(nothing, from, /*tag=*/0).wait();
  }
}

}  // namespace

Mesh::Mesh(const MeshShape& shape, int rank, const c10::intrusive_ptr<c10d::Store>& store,
           const MeshOptions& options)
    : shape_(shape), at_(config::coordinates_of(shape, rank)), rank_(rank) {
  enum class For { kDevice, kMessages, kHost };
  const auto open = [&](const std::string& name, const std::vector<int>& ranks,
                        For use = For::kDevice) {
    if (ranks.size() == 1) return Group();
    const bool for_host = use == For::kHost;
    const auto index = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
    const TransportOptions transport{
        .name = tributary::str("group/", name, "/", ranks.front()),
        .index = index,
        .size = static_cast<int>(ranks.size()),
        .timeout_seconds =
            for_host ? std::max(kFileTimeout, options.timeout_seconds) : options.timeout_seconds,
        .interface = options.interface,
        .shares_memory = options.shares_memory,
        .only_messages = use == For::kMessages};
    std::unique_ptr<Transport> opened = options.device.is_cuda() && !for_host
                                            ? make_nccl(store, transport, options.device.index())
                                            : make_direct(store, transport);
    return Group(name, ranks, index, std::move(opened),
                 name == kSaving ? nullptr : options.on_collective);
  };
  const auto along = [&](const std::string& name, const Axes& axes) {
    return open(name, members(shape, at_, axes));
  };
  // In one order on all ranks: constructing a group is itself a meeting of its members.
  const std::vector<int> all = members(shape, at_, {true, true, true, true, true, true});
  world_ = open("world", all, For::kHost);
  saving_ = open(kSaving, all, For::kHost);
  shard_ = along("shard", {.dp_shard = true, .cp = true, .ulysses = true});
  shard_reduce_ = along("shard_reduce", {.dp_shard = true, .cp = true, .ulysses = true});
  replicate_ = along("dp_replicate", {.dp_replicate = true});
  sequence_ = along("cp.ulysses", {.cp = true, .ulysses = true});
  cp_ = along("cp", {.cp = true});
  ulysses_ = along("ulysses", {.ulysses = true});
  tp_ = along("tp", {.tp = true});
  constexpr std::array<const char*, 4> kLinks{"pp.activations.down", "pp.activations.up",
                                              "pp.gradients.down", "pp.gradients.up"};
  for (std::size_t link = 0; link < kLinks.size(); ++link)
    stages_[link] = open(kLinks[link], members(shape, at_, {.pp = true}), For::kMessages);
  const std::vector<int> chain = members(shape, at_, {.pp = true});
  const int begin = chain[static_cast<std::size_t>(options.first_of_backbone)];
  if (begin != chain.back() && (rank == begin || rank == chain.back()))
    end_stages_ = open("pp.ends", {begin, chain.back()});
  if (options.kv_heads > 0 && shape.tp > options.kv_heads) {
    const std::int64_t copies = shape.tp / options.kv_heads;
    std::vector<int> ranks = members(shape, at_, {.tp = true});
    const auto first = ranks.begin() + at_.tp / copies * copies;
    kv_replicas_ = open("tp.kv_replicas", std::vector<int>(first, first + copies));
  }
  if (options.device.is_cuda())
    for (const Group& link : stages_) meet_stages(link, options.first_of_backbone, options.device);
  // A rank has its connections before the others have theirs: none may leave until all do.
  (void)world_.sum(std::vector<std::int64_t>{0});
}

std::int64_t Mesh::data_index_of(int rank) const {
  const MeshCoordinates at = config::coordinates_of(shape_, rank);
  return at.dp_replicate * shape_.dp_shard + at.dp_shard;
}

Traffic Mesh::traffic() const {
  Traffic total;
  for (const Group* group : {&world_, &shard_, &shard_reduce_, &replicate_, &sequence_, &cp_,
                             &ulysses_, &tp_, &kv_replicas_, &end_stages_})
    total += group->traffic();
  for (const Group& link : stages_) total += link.traffic();
  return total;
}

std::vector<std::pair<int, int>> stage_pairs(int stages, int first_of_backbone) {
  std::vector<std::pair<int, int>> pairs;
  for (int stage = 0; stage + 1 < stages; ++stage) pairs.emplace_back(stage, stage + 1);
  if (first_of_backbone + 2 < stages) pairs.emplace_back(stages - 1, first_of_backbone);
  return pairs;
}

}  // namespace tributary::mesh
