#pragma once

#include <functional>

#include "config/mesh_shape.h"
#include "mesh/mesh.h"

namespace tributary::mesh {

/// Runs `body` once for each rank of the shape, as threads of this process that meet over loopback.
/// A failed expectation or an exception of any rank fails the test.
void run_ranks(const config::MeshShape& shape, const std::function<void(const Mesh&)>& body,
               std::int64_t kv_heads = 0);

}  // namespace tributary::mesh
