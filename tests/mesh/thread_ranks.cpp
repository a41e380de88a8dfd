#include "tests/mesh/thread_ranks.h"

#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace tributary::mesh {

void run_ranks(const config::MeshShape& shape, const std::function<void(const Mesh&)>& body,
               std::int64_t kv_heads, bool shares_memory) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> failures(static_cast<std::size_t>(shape.world()));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < shape.world(); ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        const Mesh mesh(shape, rank, store,
                        {.timeout_seconds = 20,
                         .interface = "lo",
                         .shares_memory = shares_memory,
                         .kv_heads = kv_heads});
        body(mesh);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (std::size_t rank = 0; rank < failures.size(); ++rank)
    EXPECT_EQ(failures[rank], "") << "rank " << rank;
}

}  // namespace tributary::mesh
