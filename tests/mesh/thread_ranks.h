#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/run/mesh_shape.h"
#include "mesh/mesh.h"

namespace tributary::mesh {

/// Runs `body` once for each rank of the shape, in threads of this process that pass messages
/// through memory, or else over loopback. A failed expectation or an exception of any rank fails
/// the test.
void run_ranks(const config::MeshShape& shape, const std::function<void(const Mesh&)>& body,
               std::int64_t kv_heads = 0, bool shares_memory = true);

/// Opens a group of some ranks, all of which call this at the same time. Its name and first rank
/// name it among all.
using OpenGroup = std::function<Group(const std::string& name, const std::vector<int>& ranks)>;

/// As run_ranks, for ranks that are no mesh and open their groups themselves.
void run_ranks_without_mesh(int ranks,
                            const std::function<void(int rank, const OpenGroup& open)>& body,
                            bool shares_memory = true);

}  // namespace tributary::mesh
