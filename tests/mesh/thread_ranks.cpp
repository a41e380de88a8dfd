#include "tests/mesh/thread_ranks.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <thread>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "core/text.h"
#include "mesh/transport/transports.h"

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

void run_ranks(const config::MeshShape& shape, const std::function<void(const Mesh&)>& body,
               std::int64_t kv_heads, bool shares_memory) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  run_threads(static_cast<int>(shape.world()), [&](int rank) {
    const Mesh mesh(shape, rank, store,
                    {.timeout_seconds = kTimeoutSeconds,
                     .interface = kInterface,
                     .shares_memory = shares_memory,
                     .kv_heads = kv_heads});
    body(mesh);
  });
}

void run_ranks_without_mesh(int ranks,
                            const std::function<void(int rank, const OpenGroup& open)>& body,
                            bool shares_memory) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  // Groups stay open until all ranks are done: a rank that left would break those of the others.
  std::vector<std::vector<Group>> opened(static_cast<std::size_t>(ranks));
  run_threads(ranks, [&](int rank) {
    body(rank, [&](const std::string& name, const std::vector<int>& members) {
      if (members.size() == 1) return Group();
      const auto index = static_cast<int>(std::ranges::find(members, rank) - members.begin());
      Group group(name, members, index,
                  make_direct(store, {.name = str("group/", name, "/", members.front()),
                                      .index = index,
                                      .size = static_cast<int>(members.size()),
                                      .timeout_seconds = kTimeoutSeconds,
                                      .interface = kInterface,
                                      .shares_memory = shares_memory}));
      opened[static_cast<std::size_t>(rank)].push_back(group);
      return group;
    });
  });
}

}  // namespace tributary::mesh
