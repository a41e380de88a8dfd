#pragma once

#include <map>
#include <string>

#include "config/plan/plan.h"
#include "mesh/mesh.h"
#include "model/model.h"
#include "parallel/redistribute.h"

namespace tributary::train {

/// Messages between the ranks of an encoder's last stage and those of the backbone's first one. On
/// CUDA each way has a group of its own, on CPU both ways share one.
struct EdgeGroups {
  mesh::Group features_up, features_down, gradients_up, gradients_down;
};

/// The modules of a run on their ranks. A module that is inline lies with the backbone; of one with
/// placement `flow` each rank of the backbone's first stage has a copy.
struct Meshes {
  mesh::Mesh backbone;
  std::map<std::string, mesh::Mesh> encoders = {};  // by module
  std::map<std::string, EdgeGroups> edges = {};     // by encoder
};

/// Opens the meshes of a plan and the links between them.
/// collective: over all ranks of the world
[[nodiscard]] Meshes open_meshes(const config::Plan& plan, const mesh::World& world,
                                 std::int64_t kv_heads);

/// The ranks at both ends of an encoder's features: seats in the order of replicas, then of the
/// ranks that share a replica's packs.
[[nodiscard]] parallel::Edge edge_of(const Meshes& meshes, const std::string& encoder);

}  // namespace tributary::train
