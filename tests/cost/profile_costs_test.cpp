#include "cost/profile_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "cost/watched_costs.h"

namespace tributary::cost {
namespace {

using config::CollectiveOp;
using config::LayerKind;

config::Profile small_profile() {
  config::Profile profile{.model = "m", .device = "cpu", .cores = 4, .memory = {1 << 30}};
  for (const std::int64_t threads : {1, 2}) {
    config::ProfileTable table{.module = "backbone",
                               .layer = "block",
                               .dtype = config::Dtype::kFloat32,
                               .threads = threads,
                               .parameters = {400}};
    table.points = {{.tokens = {100},
                     .forward = {1000 / threads},
                     .input_gradient = {700},
                     .weight_gradient = {300},
                     .recompute = {900}}};
    profile.layers.push_back(table);
    profile.steps.push_back({.ranks = 4 / threads,
                             .threads = threads,
                             .step = {50},
                             .microbatch = {7},
                             .optimizer = {1000},
                             .parameters = 100,
                             .process = {12345}});
  }
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kSend})
    profile.collectives.push_back({.op = op,
                                   .points = {{.ranks = 2, .bytes = {1024}, .time = {100}},
                                              {.ranks = 2, .bytes = {2048}, .time = {90}},
                                              {.ranks = 2, .bytes = {4096}, .time = {300}}}});
  return profile;
}

const config::LayerShape kBlock{.width = 8, .heads = 2, .kv_heads = 2, .head_width = 4};
constexpr PassShape kPass{.tokens = 100, .squared_tokens = 10000};

Nanoseconds forward_on(std::int64_t ranks) {
  return ProfileCosts(small_profile(), ranks, /*threads=*/0, "p.json")
      .layer("backbone", kBlock, kPass, {}, {})
      .forward;
}

TEST(WatchedCosts, NamesTheTablesThatAreTooSmallWithTheLargestSizeAsked) {
  const auto source = std::make_shared<const ProfileCosts>(small_profile(), 4, 0, "p.json");
  const WatchedCosts watched(source);
  const CommunicationGroup pair{.ranks = 2, .ranks_per_node = 2};
  const auto pass_of = [](double tokens) {
    return PassShape{.tokens = tokens, .squared_tokens = tokens * tokens};
  };
  (void)watched.layer("backbone", kBlock, kPass, {}, {});
  (void)watched.collective(CollectiveOp::kAllReduce, pair, {4096});
  EXPECT_TRUE(watched.beyond_grid().empty()) << "the largest sizes were measured";
  for (const double tokens : {150.5, 120.0})
    EXPECT_EQ(watched.layer("backbone", kBlock, pass_of(tokens), {}, {}).forward,
              source->layer("backbone", kBlock, pass_of(tokens), {}, {}).forward);
  for (const std::int64_t bytes : {4097, 8192})
    EXPECT_EQ(watched.collective(CollectiveOp::kSend, pair, {bytes}),
              source->collective(CollectiveOp::kSend, pair, {bytes}));
  EXPECT_EQ(watched.beyond_grid(),
            (std::vector<config::BeyondGrid>{{"backbone.block tp 1", "tokens", 100, 151},
                                             {"send of 2 ranks", "B", 4096, 8192}}));
  config::Profile apart = small_profile();
  for (config::ProfileTable& table : apart.layers)
    table.attention = {{.attended = 60, .tokens = {100}, .forward = {500}}};
  const WatchedCosts longer(std::make_shared<const ProfileCosts>(apart, 4, 0, "p.json"));
  (void)longer.layer("backbone", kBlock, {.tokens = 100, .squared_tokens = 6000}, {}, {});
  EXPECT_TRUE(longer.beyond_grid().empty());
  (void)longer.layer("backbone", kBlock, kPass, {}, {});
  EXPECT_EQ(
      longer.beyond_grid(),
      (std::vector<config::BeyondGrid>{{"backbone.block tp 1 attention", "tokens each", 60, 100}}));
  EXPECT_EQ(describe(watched.beyond_grid()),
            "backbone.block tp 1 at 151 tokens (measured to 100); "
            "send of 2 ranks at 8192 B (measured to 4096)");
}

TEST(ProfileCosts, TakesTheTableOfTheThreadsThatARankHas) {
  EXPECT_EQ(forward_on(4), Nanoseconds{1000});
  EXPECT_EQ(forward_on(2), Nanoseconds{500});
  const ProfileCosts one(small_profile(), 2, /*threads=*/1, "p.json");
  EXPECT_EQ(one.layer("backbone", kBlock, kPass, {}, {}).forward, Nanoseconds{1000});
  EXPECT_EQ(forward_on(9), Nanoseconds{1000}) << "more ranks than cores have a thread each";
}

TEST(ProfileCosts, PrefersWhatWasMeasuredBesideAsManyRanks) {
  config::Profile profile = small_profile();
  profile.layers.resize(1);
  for (const std::int64_t ranks : {1, 2, 8}) {
    config::ProfileTable table = profile.layers.front();
    table.ranks = ranks;
    table.points.front().forward = {10 * ranks};
    profile.layers.push_back(table);
  }
  profile.layers.erase(profile.layers.begin());
  const auto forward = [&](std::int64_t ranks) {
    return ProfileCosts(profile, ranks, /*threads=*/1, "p.json")
        .layer("backbone", kBlock, kPass, {}, {})
        .forward.count;
  };
  EXPECT_EQ(forward(1), 10);
  EXPECT_EQ(forward(2), 20);
  EXPECT_EQ(forward(3), 20) << "rather fewer than more";
  EXPECT_EQ(forward(8), 80) << "more than the cores too";
}

TEST(ProfileCosts, InterpolatesCollectivesAndNeverLetsMoreBytesTakeLess) {
  const ProfileCosts costs(small_profile(), 2, /*threads=*/0, "p.json");
  const auto time = [&](std::int64_t bytes) {
    return costs.collective(CollectiveOp::kAllReduce, {.ranks = 2}, {bytes}).count;
  };
  EXPECT_EQ(time(1), 95) << "100 and 90 agree on their mean";
  EXPECT_EQ(time(1024), 95);
  EXPECT_EQ(time(2048), 95);
  EXPECT_EQ(time(3072), (95 + 300) / 2 + 1);
  EXPECT_EQ(time(8192), 600) << "beyond the grid at the rate of the last point";
  EXPECT_EQ(costs.collective(CollectiveOp::kAllReduce, {.ranks = 1}, {5}).count, 0);
  EXPECT_EQ(costs.optimizer(50), Nanoseconds{500});
  EXPECT_EQ(costs.min_step(), Nanoseconds{50 + 5 * 95});
  EXPECT_EQ(costs.process(), Bytes{12345});
}

std::string words_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ProfileCosts, NamesTheTableThatIsMissing) {
  const ProfileCosts costs(small_profile(), 2, /*threads=*/0, "p.json");
  EXPECT_THAT(words_of([&] { (void)costs.layer("backbone", kBlock, kPass, {.tp = 2}, {}); }),
              testing::HasSubstr("expected: backbone.block, tp 2, threads 2"));
  EXPECT_THAT(
      words_of([&] { (void)costs.collective(CollectiveOp::kAllGather, {.ranks = 2}, {100}); }),
      testing::HasSubstr("expected: all_gather of 2 ranks"));
  EXPECT_THAT(words_of([] { (void)ProfileCosts(small_profile(), 1, 0, "p.json").min_step(); }),
              testing::HasSubstr("expected: a step on 4 threads"));
}

TEST(ClusterOfProfile, HasTheMeasuredMessagesAndPartsTheMemory) {
  const config::Cluster cluster = cluster_of(small_profile(), 2, "p.json");
  EXPECT_EQ(cluster.cores, 4);
  EXPECT_EQ(cluster.device.memory, Bytes{1 << 29});
  EXPECT_DOUBLE_EQ(cluster.levels.front().message_start_s, 100e-9);
  EXPECT_DOUBLE_EQ(cluster.levels.front().bytes_per_s, 1e9 * 4096 / 200);
  EXPECT_NO_THROW(check_cluster(cluster, "cluster"));
  config::Profile without = small_profile();
  without.collectives.clear();
  EXPECT_NO_THROW((void)cluster_of(without, 1, "p.json"));
  EXPECT_THAT(words_of([&] { (void)cluster_of(without, 2, "p.json"); }),
              testing::HasSubstr("messages between 2 ranks"));
}

}  // namespace
}  // namespace tributary::cost
