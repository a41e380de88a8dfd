#include "cost/collective_cost.h"

#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <span>

#include "core/error.h"
#include "core/random.h"
#include "core/text.h"

namespace tributary::cost {
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

TEST(CollectiveCost, NeverFallsFromTheTableToTheFormula) {
  Cluster cluster = make_cluster();
  // Formula of 4 ranks: 16 us and 1.5 ns a byte.
  cluster.levels[0].small_all_reduce = {
      {4, {10'000}, {20'000}}, {4, {20'000}, {19'000}}, {4, {30'000}, {90'000}}};
  const auto cost = [&](std::int64_t bytes) {
    return ns(cluster, CollectiveOp::kAllReduce, 4, 4, bytes);
  };
  EXPECT_EQ(cost(1000), 17'500);
  EXPECT_EQ(cost(9999), 20'000);  // the formula says 30,998
  EXPECT_EQ(cost(20'000), 20'000);
  EXPECT_EQ(cost(25'000), 55'000);
  EXPECT_EQ(cost(40'000), 90'000);  // the formula says 76,000
  EXPECT_EQ(cost(60'000), 106'000);
}

TEST(CollectiveCost, OfANodeIsAsFastAsItsLinksInsideAllow) {
  Cluster cluster = make_cluster();
  for (config::LinkLevel& level : cluster.levels) level.start_s = level.hop_s = 0;
  cluster.levels[1].message_start_s = 0;
  constexpr std::int64_t kBytes = 1'600'000;
  const auto cost = [&](CollectiveOp op) { return ns(cluster, op, 16, 8, kBytes); };
  // The 8 links of 100 MB/s are narrower than the bus of 1 GB/s.
  EXPECT_EQ(cost(CollectiveOp::kAllReduce), std::llround(2 * 15 / 16.0 * kBytes * 1.25));
  EXPECT_EQ(cost(CollectiveOp::kAllToAll), 7 * 100'000 + 8 * 100'000 * 10);
  cluster.levels[1].bytes_per_s = 1e10;  // now the bus is
  EXPECT_EQ(cost(CollectiveOp::kAllReduce),
            std::llround((2 * 7 / 8.0 + 2 * 1 / 2.0 / 8 / 10) * kBytes));  // and rails spare it
  EXPECT_EQ(cost(CollectiveOp::kAllToAll), 15 * 100'000);
}

constexpr CollectiveOp kOps[]{CollectiveOp::kAllReduce,     CollectiveOp::kAllGather,
                              CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll,
                              CollectiveOp::kBroadcast,     CollectiveOp::kSend};

/// Those of this file and of configs/clusters.
std::vector<Cluster> all_clusters() {
  std::vector<Cluster> clusters{make_cluster()};
  for (const auto& entry :
       std::filesystem::directory_iterator(str(TRIB_SOURCE_DIR, "/configs/clusters")))
    if (entry.path().extension() == ".yaml")
      clusters.push_back(config::read_cluster(entry.path().string()));
  return clusters;
}

TEST(CollectiveCost, OfTwoNodesIsNeverBelowThatOfOne) {
  std::vector<Cluster> clusters = all_clusters();
  RandomStream random(5, "links");
  const auto draw = [&](double min) { return min * std::pow(1e4, random.uniform()); };
  for (int trial = 0; trial < 200; ++trial) {
    Cluster cluster = make_cluster();
    for (config::LinkLevel& level : cluster.levels) {
      level.bytes_per_s = draw(1e8);
      level.start_s = draw(1e-7);
      level.hop_s = draw(1e-8);
    }
    cluster.levels[0].seconds_per_byte = draw(1e-12);
    cluster.levels[0].low_latency_start_s = random.below(2) == 0 ? 0 : draw(1e-7);
    cluster.levels[0].low_latency_slowdown = 1 + random.uniform();
    clusters.push_back(cluster);
  }
  for (const Cluster& cluster : clusters)
    for (const CollectiveOp op : std::span(kOps).first(4))
      for (std::int64_t node = 2; node <= cluster.devices_per_node() && 2 * node <= cluster.devices;
           node *= 2)
        for (double bytes = 1; bytes < 1e11; bytes *= 1.3) {
          const auto count = static_cast<std::int64_t>(bytes);
          ASSERT_GE(ns(cluster, op, 2 * node, node, count), ns(cluster, op, node, node, count))
              << cluster.name << ", nodes of " << node << ", " << count << " B, "
              << static_cast<int>(op);
        }
}

Cluster with_links_twice_as_fast(Cluster cluster) {
  for (config::LinkLevel& level : cluster.levels) {
    level.seconds_per_byte /= 2;
    level.seconds_per_byte_pair /= 2;
    level.bytes_per_s *= 2;
  }
  return cluster;
}

TEST(CollectiveCost, NeverFallsWithBytesNorRisesWithBandwidth) {
  for (const Cluster& cluster : all_clusters()) {
    const Cluster faster = with_links_twice_as_fast(cluster);
    for (const CollectiveOp op : kOps) {
      for (const auto& [ranks, per_node] :
           {std::pair{2, 2}, {4, 4}, {8, 8}, {2, 1}, {16, 8}, {64, 8}, {8, 2}}) {
        if (ranks > cluster.devices || per_node > cluster.devices_per_node()) continue;
        std::int64_t before = 0;
        for (double bytes = 1; bytes < 1e11; bytes = std::max(bytes + 1, 1.01 * bytes)) {
          const auto count = static_cast<std::int64_t>(bytes);
          const std::int64_t now = ns(cluster, op, ranks, per_node, count);
          ASSERT_GE(now, before) << cluster.name << ' ' << ranks << ' ' << per_node << ' ' << count;
          ASSERT_LE(ns(faster, op, ranks, per_node, count), now) << cluster.name << ' ' << count;
          before = now;
        }
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
}  // namespace tributary::cost
