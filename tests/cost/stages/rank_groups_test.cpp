#include "cost/stages/rank_groups.h"

#include <gtest/gtest.h>
#include <map>
#include <tuple>

#include "tests/cost/stages/stage_case.h"

namespace tributary::cost {
namespace {

config::Cluster racks() {
  config::Cluster cluster = one_node();
  cluster.devices = 256;
  cluster.levels = {{.name = "node", .ranks = 8, .bytes_per_s = 100e9},
                    {.name = "rack", .ranks = 64, .bytes_per_s = 10e9},
                    {.name = "all", .ranks = 256, .bytes_per_s = 5e9}};
  return cluster;
}

using Kept = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

/// By coordinates: ranks that agree on all axes but those of the group meet.
CommunicationGroup by_coordinates(const config::ModulePlan& module, std::int64_t pp,
                                  const std::function<Kept(config::MeshCoordinates)>& kept) {
  std::map<Kept, std::vector<std::int64_t>> groups;
  for (std::int64_t rank = 0; rank < module.mesh.world(); ++rank) {
    const config::MeshCoordinates at = config::coordinates_of(module.mesh, rank);
    if (at.pp == pp) groups[kept(at)].push_back(module.ranks[rank]);
  }
  CommunicationGroup worst;
  for (const auto& [key, ranks] : groups) {
    const CommunicationGroup group = group_of(racks(), ranks);
    if (worst.ranks == 1) worst = group;
    worst.ranks_per_node = std::min(worst.ranks_per_node, group.ranks_per_node);
    worst.level = std::max(worst.level, group.level);
  }
  return worst;
}

TEST(RankGroups, AreThoseOfTheCoordinates) {
  const config::MeshShape mesh{
      .pp = 2, .dp_replicate = 2, .dp_shard = 3, .cp = 2, .ulysses = 2, .tp = 2, .ep = 4};
  for (const std::int64_t first : {0, 5, 100}) {
    config::ModulePlan module = plan_of(mesh).modules[0];
    for (std::int64_t& rank : module.ranks) rank += first + rank / 7;  // with gaps
    const std::vector<RankGroups> groups = groups_of(module, racks());
    ASSERT_EQ(groups.size(), 2u);
    for (std::int64_t pp = 0; pp < 2; ++pp) {
      using At = config::MeshCoordinates;
      const auto expect = [&](const CommunicationGroup& group, auto kept) {
        EXPECT_EQ(group, by_coordinates(module, pp, kept));
      };
      const auto shard = [&](At at) {
        return (at.dp_shard * mesh.cp + at.cp) * mesh.ulysses + at.ulysses;
      };
      expect(groups[pp].tp, [](At at) {
        return Kept{at.dp_replicate, at.dp_shard, at.cp, at.ulysses, 0};
      });
      expect(groups[pp].ulysses, [](At at) {
        return Kept{at.dp_replicate, at.dp_shard, at.cp, 0, at.tp};
      });
      expect(groups[pp].cp, [](At at) {
        return Kept{at.dp_replicate, at.dp_shard, 0, at.ulysses, at.tp};
      });
      expect(groups[pp].sequence, [](At at) {
        return Kept{at.dp_replicate, at.dp_shard, 0, 0, at.tp};
      });
      expect(groups[pp].shard, [](At at) { return Kept{at.dp_replicate, 0, 0, 0, at.tp}; });
      expect(groups[pp].replicate, [](At at) {
        return Kept{0, at.dp_shard, at.cp, at.ulysses, at.tp};
      });
      expect(groups[pp].expert, [&](At at) {
        return Kept{at.dp_replicate, shard(at) / 4, 0, 0, at.tp};
      });
      expect(groups[pp].expert_shard, [&](At at) {
        return Kept{at.dp_replicate, shard(at) % 4, 0, 0, at.tp};
      });
    }
  }
}

TEST(RankGroups, TheEndsOfAPipelineAreAPair) {
  const std::vector<RankGroups> groups = groups_of(plan_of({.pp = 4, .tp = 4}).modules[0], racks());
  for (const RankGroups& group : groups)
    EXPECT_EQ(group.ends, (CommunicationGroup{.ranks = 2, .ranks_per_node = 1, .level = 1}));
  EXPECT_EQ(groups_of(plan_of({.tp = 4}).modules[0], racks())[0].ends, CommunicationGroup{});
}

TEST(GroupOf, CountsTheSmallestPartAndFindsTheLevel) {
  const auto group = [](std::vector<std::int64_t> ranks) { return group_of(racks(), ranks); };
  EXPECT_EQ(group({0, 1, 2, 3}), (CommunicationGroup{.ranks = 4, .ranks_per_node = 4}));
  EXPECT_EQ(group({4, 5, 6, 7, 8, 9, 10, 11}),
            (CommunicationGroup{.ranks = 8, .ranks_per_node = 4, .level = 1}));
  EXPECT_EQ(group({6, 7, 8}), (CommunicationGroup{.ranks = 3, .ranks_per_node = 1, .level = 1}));
  EXPECT_EQ(group({0, 64}), (CommunicationGroup{.ranks = 2, .ranks_per_node = 1, .level = 2}));
}

TEST(GroupOf, FarRanksMeetOnTheLevelThatJoinsThem) {
  const Bytes bytes{1 << 24};
  const auto time = [&](std::vector<std::int64_t> ranks) {
    return collective_cost(racks(), config::CollectiveOp::kAllReduce, group_of(racks(), ranks),
                           bytes)
        .time;
  };
  EXPECT_EQ(time({0, 8}), time({8, 56}));
  EXPECT_GT(time({0, 64}), time({0, 8}));  // another rack, though two nodes as well
}

}  // namespace
}  // namespace tributary::cost
