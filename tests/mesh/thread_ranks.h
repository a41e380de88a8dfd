#pragma once

#include <functional>

#include "config/run/mesh_shape.h"
#include "mesh/mesh.h"

namespace tributary::mesh {

/// Runs `body` once for each rank of a world, in threads of this process that pass messages through
/// memory, or else over loopback. A failed expectation or an exception of any rank fails the test.
void run_worlds(int ranks, const std::function<void(const World&)>& body,
                bool shares_memory = true);

/// As run_worlds, for the ranks of one mesh.
void run_ranks(const config::MeshShape& shape, const std::function<void(const Mesh&)>& body,
               std::int64_t kv_heads = 0, bool shares_memory = true);

}  // namespace tributary::mesh
