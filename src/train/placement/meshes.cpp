#include "train/placement/meshes.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "config/family/known_modules.h"
#include "mesh/meet_pairs.h"

namespace tributary::train {
namespace {

std::vector<int> ranks_of(const config::ModulePlan& module) {
  return {module.ranks.begin(), module.ranks.end()};
}

/// The ranks of a stage by seat; the ranks of a seat in the order of tp.
std::vector<std::vector<int>> seats_of(const mesh::Mesh& mesh, std::int64_t stage) {
  const config::MeshShape& shape = mesh.shape();
  std::vector<std::vector<int>> seats;
  for (std::int64_t place = 0; place < mesh.size(); ++place) {
    const config::MeshCoordinates at = config::coordinates_of(shape, place);
    if (at.pp != stage) continue;
    if (at.tp == 0) seats.emplace_back();
    seats.back().push_back(mesh.ranks()[static_cast<std::size_t>(place)]);
  }
  return seats;
}

EdgeGroups open_edge(const std::string& encoder, const std::vector<int>& ranks,
                     const mesh::World& world) {
  const auto open = [&](const char* what) {
    return world.open(encoder + what, ranks, mesh::GroupUse::kMessages);
  };
  EdgeGroups groups{.features_up = open(".features"),
                    .features_down = {},
                    .gradients_up = open(".gradients"),
                    .gradients_down = {}};
  const bool shares = !world.device().is_cuda();
  groups.features_down = shares ? groups.features_up : open(".features.down");
  groups.gradients_down = shares ? groups.gradients_up : open(".gradients.down");
  return groups;
}

/// One side, whose seats are ranks of the world; they become indices in `ranks`.
parallel::EdgeSide side_of(const mesh::Mesh& mesh, std::int64_t stage,
                           const std::vector<int>& ranks) {
  parallel::EdgeSide side{.seats = seats_of(mesh, stage)};
  const int rank = mesh.world().index();
  for (std::size_t seat = 0; seat < side.seats.size(); ++seat)
    for (int& member : side.seats[seat]) {
      if (member == rank) {
        side.seat = static_cast<int>(seat);
        side.tp = &mesh.tp();
      }
      member = static_cast<int>(std::ranges::lower_bound(ranks, member) - ranks.begin());
    }
  return side;
}

/// An encoder has one virtual stage on each of its stages.
std::int64_t last_stage(const mesh::Mesh& encoder) { return encoder.shape().pp - 1; }

std::vector<int> ranks_of_edge(const mesh::Mesh& encoder, const mesh::Mesh& backbone) {
  std::set<int> ranks;
  for (const auto& seat : seats_of(encoder, last_stage(encoder)))
    ranks.insert(seat.begin(), seat.end());
  for (const auto& seat : seats_of(backbone, 0)) ranks.insert(seat.begin(), seat.end());
  return {ranks.begin(), ranks.end()};
}

/// Connects the pairs between which features go, or gradients, in one order on all ranks.
void connect(const parallel::Edge& edge, c10::Device device) {
  std::set<std::pair<int, int>> features;
  for (const std::vector<int>& seat : edge.source.seats)
    for (const std::vector<int>& other : edge.destination.seats)
      for (const int from : seat)
        for (const int to : other)
          if (from != to) features.emplace(from, to);
  for (const auto& [from, to] : features) {
    const std::array<std::pair<int, int>, 1> there{std::pair(from, to)};
    const std::array<std::pair<int, int>, 1> back{std::pair(to, from)};
    mesh::meet_pairs(edge.features.between(from, to), there, device);
    mesh::meet_pairs(edge.gradients.between(to, from), back, device);
  }
}

/// The mesh on which each rank of the backbone's first stage has a copy of a module of its own.
mesh::Mesh open_copies(const config::ModulePlan& module, const mesh::Mesh& backbone,
                       const mesh::World& world) {
  std::vector<int> ranks;
  for (const std::vector<int>& seat : seats_of(backbone, 0))
    ranks.insert(ranks.end(), seat.begin(), seat.end());
  std::ranges::sort(ranks);
  const config::MeshShape shape{.dp_replicate = std::ssize(ranks)};
  return {module.name, shape, ranks, world};
}

}  // namespace

Meshes open_meshes(const config::Plan& plan, const mesh::World& world, std::int64_t kv_heads) {
  const config::ModulePlan& backbone = *plan.find(config::kBackboneModule);
  Meshes meshes{.backbone = mesh::Mesh("", backbone.mesh, ranks_of(backbone), world, kv_heads)};
  for (const config::ModulePlan& module : plan.modules) {
    if (module.name == backbone.name || module.placement == config::Placement::kInline) continue;
    if (module.placement == config::Placement::kFlow) {
      meshes.encoders.emplace(module.name, open_copies(module, meshes.backbone, world));
      world.meet();
      continue;
    }
    const mesh::Mesh& own =
        meshes.encoders
            .emplace(module.name, mesh::Mesh(module.name, module.mesh, ranks_of(module), world))
            .first->second;
    const std::vector<int> ranks = ranks_of_edge(own, meshes.backbone);
    EdgeGroups& groups = meshes.edges[module.name];
    if (std::ranges::binary_search(ranks, world.rank())) {
      groups = open_edge(module.name, ranks, world);
      connect(edge_of(meshes, module.name), world.device());
    }
    world.meet();
  }
  return meshes;
}

parallel::Edge edge_of(const Meshes& meshes, const std::string& encoder) {
  const mesh::Mesh& own = meshes.encoders.at(encoder);
  const std::vector<int> ranks = ranks_of_edge(own, meshes.backbone);
  const EdgeGroups& groups = meshes.edges.at(encoder);
  return {.features = {&groups.features_up, &groups.features_down},
          .gradients = {&groups.gradients_up, &groups.gradients_down},
          .source = side_of(own, last_stage(own), ranks),
          .destination = side_of(meshes.backbone, 0, ranks)};
}

}  // namespace tributary::train
