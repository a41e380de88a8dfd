#include "tests/mesh/thread_ranks.h"

#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace tributary::mesh {
namespace {

constexpr double kTimeoutSeconds = 20;
constexpr const char* kInterface = "lo";

void run_threads(int count, const std::function<void(int rank)>& body) {
  std::vector<std::string> failures(static_cast<std::size_t>(count));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (std::size_t rank = 0; rank < failures.size(); ++rank)
    EXPECT_EQ(failures[rank], "") << "rank " << rank;
}

}  // namespace

void run_worlds(int ranks, const std::function<void(const World&)>& body, bool shares_memory) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  run_threads(ranks, [&](int rank) {
    const World world(rank, ranks, store,
                      {.timeout_seconds = kTimeoutSeconds,
                       .interface = kInterface,
                       .shares_memory = shares_memory});
    body(world);
    world.meet();  // a rank that left would break the groups of the others
  });
}

void run_ranks(const config::MeshShape& shape, const std::function<void(const Mesh&)>& body,
               std::int64_t kv_heads, bool shares_memory) {
  run_worlds(
      static_cast<int>(shape.world()),
      [&](const World& world) { body(Mesh(shape, world, kv_heads)); }, shares_memory);
}

}  // namespace tributary::mesh
