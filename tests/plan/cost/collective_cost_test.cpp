#include "plan/cost/collective_cost.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tributary::plan {
namespace {

using config::Cluster;
using config::CollectiveOp;

/// Nodes of 8 at 1 GB/s a byte in the bus, joined at 100 MB/s for each device.
Cluster make_cluster() {
  Cluster cluster{.devices = 64};
  cluster.levels.push_back({.name = "node",
                            .ranks = 8,
                            .bytes_per_s = 5e8,
                            .message_start_s = 1e-6,
                            .start_s = 10e-6,
                            .hop_s = 1e-6,
                            .seconds_per_byte = 1e-9});
  cluster.levels.push_back({.name = "network",
                            .ranks = 64,
                            .bytes_per_s = 1e8,
                            .message_start_s = 2e-6,
                            .start_s = 20e-6,
                            .hop_s = 2e-6});
  return cluster;
}

std::int64_t ns(const Cluster& cluster, CollectiveOp op, std::int64_t ranks, std::int64_t per_node,
                std::int64_t bytes) {
  return collective_cost(cluster, op, {.ranks = ranks, .ranks_per_node = per_node}, {bytes})
      .time.count;
}

TEST(CollectiveCost, OneRankCostsNothing) {
  EXPECT_EQ(ns(make_cluster(), CollectiveOp::kAllReduce, 1, 1, 1 << 30), 0);
}

TEST(CollectiveCost, FollowsTheRingInsideANode) {
  // 10 us, 6 steps of 1 us, 1.5 times the bytes at 1 GB/s.
  EXPECT_EQ(ns(make_cluster(), CollectiveOp::kAllReduce, 4, 4, 1'000'000), 16'000 + 1'500'000);
}

TEST(CollectiveCost, AllReduceIsReduceScatterAndAllGather) {
  const Cluster cluster = make_cluster();
  for (const std::int64_t ranks : {2, 4, 8})
    EXPECT_EQ(ns(cluster, CollectiveOp::kAllReduce, ranks, ranks, 1 << 20),
              ns(cluster, CollectiveOp::kReduceScatter, ranks, ranks, 1 << 20) +
                  ns(cluster, CollectiveOp::kAllGather, ranks, ranks, 1 << 20));
}

TEST(CollectiveCost, TakesTheProtocolThatIsFaster) {
  Cluster cluster = make_cluster();
  const std::int64_t small = ns(cluster, CollectiveOp::kAllReduce, 8, 8, 1024);
  const std::int64_t large = ns(cluster, CollectiveOp::kAllReduce, 8, 8, 1 << 28);
  cluster.levels[0].low_latency_start_s = 2e-6;
  cluster.levels[0].low_latency_hop_s = 0.5e-6;
  cluster.levels[0].low_latency_slowdown = 2;
  EXPECT_LT(ns(cluster, CollectiveOp::kAllReduce, 8, 8, 1024), small);
  EXPECT_EQ(ns(cluster, CollectiveOp::kAllReduce, 8, 8, 1 << 28), large);
}

TEST(CollectiveCost, LooksUpMeasuredGroupsOnly) {
  Cluster cluster = make_cluster();
  cluster.levels[0].small_all_reduce = {{4, {1000}, {500}}, {4, {3000}, {700}}};
  const auto cost = [&](std::int64_t ranks, std::int64_t bytes) {
    return collective_cost(cluster, CollectiveOp::kAllReduce,
                           {.ranks = ranks, .ranks_per_node = ranks}, {bytes});
  };
  EXPECT_EQ(cost(4, 1000).time, Nanoseconds{500});
  EXPECT_EQ(cost(4, 2000).time, Nanoseconds{600});
  EXPECT_EQ(cost(4, 2000).algorithm, Algorithm::kTable);
  EXPECT_EQ(cost(4, 999).algorithm, Algorithm::kRing);  // outside: the formula
  EXPECT_EQ(cost(4, 3001).algorithm, Algorithm::kRing);
  EXPECT_EQ(cost(2, 2000).algorithm, Algorithm::kRing);  // another group
}

TEST(CollectiveCost, ReducesInsideNodesFirstWhereThatIsFaster) {
  Cluster cluster = make_cluster();
  cluster.levels[0].seconds_per_byte = 1e-11;
  const CollectiveCost cost = collective_cost(cluster, CollectiveOp::kAllReduce,
                                              {.ranks = 64, .ranks_per_node = 8}, {1 << 24});
  EXPECT_EQ(cost.algorithm, Algorithm::kHierarchical);
}

TEST(CollectiveCost, NeverFallsWithBytesNorRisesWithBandwidth) {
  Cluster cluster = make_cluster();
  Cluster faster = cluster;
  faster.levels[0].seconds_per_byte /= 2;
  faster.levels[0].bytes_per_s *= 2;
  faster.levels[1].bytes_per_s *= 2;
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
        CollectiveOp::kAllToAll, CollectiveOp::kBroadcast, CollectiveOp::kSend}) {
    for (const auto& [ranks, per_node] :
         {std::pair{2, 2}, {8, 8}, {2, 1}, {16, 8}, {64, 8}, {8, 2}}) {
      std::int64_t before = 0;
      for (std::int64_t bytes = 1; bytes < std::int64_t{1} << 36; bytes *= 3) {
        const std::int64_t now = ns(cluster, op, ranks, per_node, bytes);
        EXPECT_GE(now, before) << ranks << ' ' << per_node << ' ' << bytes;
        EXPECT_LE(ns(faster, op, ranks, per_node, bytes), now);
        before = now;
      }
    }
  }
}

TEST(CollectiveCost, NamesAGroupThatIsNotWithinTheCluster) {
  EXPECT_THAT([] { (void)ns(make_cluster(), CollectiveOp::kAllReduce, 128, 8, 1); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("128 ranks")));
  EXPECT_THAT([] { (void)ns(make_cluster(), CollectiveOp::kAllReduce, 16, 16, 1); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("16 in a node")));
}

TEST(GroupOf, CountsTheMembersOfANode) {
  EXPECT_EQ(group_of(16, 1, 8).ranks_per_node, 8);
  EXPECT_EQ(group_of(4, 2, 8).ranks_per_node, 4);
  EXPECT_EQ(group_of(16, 4, 8).ranks_per_node, 2);
  EXPECT_EQ(group_of(16, 16, 8).ranks_per_node, 1);
}

}  // namespace
}  // namespace tributary::plan
