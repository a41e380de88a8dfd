#include "plan/simulate/engine/fair_share.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.h"

namespace tributary::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

Route over(std::vector<int> links, double limit) {
  Route route{.latency = {}, .bytes_per_ns = limit};
  for (const int link : links) route.links.push_back({.link = link});
  return route;
}

TEST(FairShare, GivesEachFlowTheSameUntilALinkIsFull) {
  // The textbook case: three flows through links of 1 and 2, one of them through both.
  FairShare share({1, 2}, 3);
  const Route both = over({0, 1}, 10), first = over({0}, 10), second = over({1}, 10);
  share.add(0, both);
  EXPECT_THAT(share.settle(), ElementsAre(0));
  EXPECT_DOUBLE_EQ(share.rate(0), 1);
  share.add(1, first);
  EXPECT_THAT(share.settle(), UnorderedElementsAre(0, 1));
  share.add(2, second);
  EXPECT_THAT(share.settle(), UnorderedElementsAre(0, 1, 2));
  EXPECT_DOUBLE_EQ(share.rate(0), 0.5);
  EXPECT_DOUBLE_EQ(share.rate(1), 0.5);
  EXPECT_DOUBLE_EQ(share.rate(2), 1.5);
  share.remove(1);
  EXPECT_THAT(share.settle(), UnorderedElementsAre(0, 2));
  EXPECT_DOUBLE_EQ(share.rate(0), 1);
  EXPECT_DOUBLE_EQ(share.rate(2), 1);
}

TEST(FairShare, LeavesToOthersWhatAFlowCannotTake) {
  FairShare share({10}, 2);
  const Route slow = over({0}, 2), fast = over({0}, 100);
  share.add(0, slow);
  share.add(1, fast);
  EXPECT_THAT(share.settle(), UnorderedElementsAre(0, 1));
  EXPECT_DOUBLE_EQ(share.rate(0), 2);
  EXPECT_DOUBLE_EQ(share.rate(1), 8);
}

TEST(FairShare, CountsAFlowAsOftenAsItsWeightSays) {
  FairShare share({12}, 2);
  Route heavy = over({0}, 100);
  heavy.links[0].weight = 3;
  const Route light = over({0}, 100);
  share.add(0, heavy);
  share.add(1, light);
  (void)share.settle();
  EXPECT_DOUBLE_EQ(share.rate(0), 3);
  EXPECT_DOUBLE_EQ(share.rate(1), 3);
}

TEST(FairShare, TouchesOnlyWhatIsJoinedByLinks) {
  FairShare share({4, 4}, 3);
  const Route left = over({0}, 9), right = over({1}, 9), alone = over({}, 7);
  share.add(0, left);
  (void)share.settle();
  share.add(1, right);
  EXPECT_THAT(share.settle(), ElementsAre(1));
  share.add(2, alone);
  EXPECT_THAT(share.settle(), ElementsAre(2));
  EXPECT_THAT(share.settle(), ElementsAre());
  EXPECT_DOUBLE_EQ(share.rate(2), 7);
}

/// Max-min fair: each flow is at its limit, or meets a full link on which nobody has more.
TEST(FairShare, IsMaxMinFairOnRandomNetworks) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, "fair share");
    std::vector<double> capacity(1 + random.below(5));
    for (double& each : capacity) each = static_cast<double>(random.between(1, 20));
    std::vector<Route> routes(1 + random.below(8));
    for (Route& route : routes) {
      route.bytes_per_ns = static_cast<double>(random.between(1, 15));
      for (int link = 0; link < std::ssize(capacity); ++link)
        if (random.below(2) == 0) route.links.push_back({.link = link});
    }
    FairShare share(capacity, routes.size());
    const bool settles_each = random.below(2) == 0;
    for (int flow = 0; flow < std::ssize(routes); ++flow) {
      share.add(flow, routes[flow]);
      if (settles_each) (void)share.settle();
    }
    const bool removes = routes.size() > 1 && random.below(2) == 0;
    if (removes) share.remove(0);
    (void)share.settle();
    const int first = removes ? 1 : 0;
    std::vector<double> used(capacity.size(), 0), most(capacity.size(), 0);
    for (int flow = first; flow < std::ssize(routes); ++flow)
      for (const LinkUse& use : routes[flow].links) {
        used[use.link] += share.rate(flow);
        most[use.link] = std::max(most[use.link], share.rate(flow));
      }
    for (std::size_t link = 0; link < capacity.size(); ++link)
      EXPECT_LE(used[link], capacity[link] * (1 + 1e-12)) << "seed " << seed;
    for (int flow = first; flow < std::ssize(routes); ++flow) {
      const bool is_held = std::any_of(
          routes[flow].links.begin(), routes[flow].links.end(), [&](const LinkUse& use) {
            return used[use.link] >= capacity[use.link] * (1 - 1e-12) &&
                   share.rate(flow) >= most[use.link] * (1 - 1e-12);
          });
      EXPECT_TRUE(is_held || share.rate(flow) == routes[flow].bytes_per_ns) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tributary::plan
