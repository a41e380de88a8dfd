#include "train/executor/step_sums.h"

#include <cmath>
#include <gtest/gtest.h>

#include "tests/mesh/thread_ranks.h"

namespace tributary::train {
namespace {

/// Numbers whose sum depends on the order in which they are added.
double brought(int rank) { return std::pow(-1.7, 11 * (rank % 3)) + 1e-3 * rank; }

TEST(StepSums, GivesTheBitsOfSumsInTheOrderOfRanks) {
  mesh::run_ranks({.dp_shard = 4}, [](const mesh::Mesh& mesh) {
    double sum = brought(mesh.world().index());
    double of_leader = brought(mesh.world().index());
    StepSums sums;
    sums.sum(sum);
    sums.sum(of_leader, /*counts=*/mesh.world().index() == 2);
    sums.share(mesh.world());
    double expected = brought(0);
    for (int rank = 1; rank < mesh.size(); ++rank) expected += brought(rank);
    EXPECT_EQ(sum, expected);
    EXPECT_EQ(sum, mesh.world().sum(std::vector<double>{brought(mesh.world().index())}).front());
    EXPECT_EQ(of_leader, brought(2));
  });
}

TEST(StepSums, BringsAllKindsOfSlotsTogetherInOneCollective) {
  mesh::run_ranks({.dp_shard = 2, .tp = 2}, [](const mesh::Mesh& mesh) {
    const std::int64_t calls = mesh.world().traffic().calls;
    const std::int64_t large =
        (std::int64_t{1} << 61) + mesh.world().index();  // no double holds it
    std::int64_t count = 1 + mesh.world().index();
    std::int64_t max = -mesh.world().index();
    double longest = 0.5 * mesh.world().index();
    std::vector<std::int64_t> of_ranks;
    double mean = 0;
    StepSums sums;
    sums.sum(count);
    sums.then([&] { mean = static_cast<double>(count) / 4; });
    sums.largest(max);
    sums.largest(longest);
    sums.each(large, of_ranks);
    sums.share(mesh.world());
    EXPECT_EQ(count, 10);
    EXPECT_EQ(mean, 2.5);
    EXPECT_EQ(max, 0);
    EXPECT_EQ(longest, 1.5);
    ASSERT_EQ(of_ranks.size(), 4);
    for (std::int64_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(of_ranks[static_cast<std::size_t>(rank)], (std::int64_t{1} << 61) + rank);
    EXPECT_EQ(mesh.world().traffic().calls, calls + 1);
  });
}

TEST(StepSums, LeavesTheNumbersOfOneRankAsTheyAre) {
  double value = 0.1;
  std::vector<std::int64_t> of_ranks;
  StepSums sums;
  sums.sum(value);
  sums.each(std::int64_t{7}, of_ranks);
  sums.share(mesh::Group());
  EXPECT_EQ(value, 0.1);
  EXPECT_EQ(of_ranks, std::vector<std::int64_t>{7});
}

}  // namespace
}  // namespace tributary::train
