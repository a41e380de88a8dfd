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
  const Route both = over({0, 1}, 10), first = over({0}, 10), second = over({1}, 10);
  FairShare share({1, 2}, {&both, &first, &second});
  share.add(0);
  EXPECT_THAT(share.settle(), ElementsAre(0));
  EXPECT_DOUBLE_EQ(share.rate(0), 1);
  share.add(1);
  EXPECT_THAT(share.settle(), UnorderedElementsAre(0, 1));
  share.add(2);
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
  const Route slow = over({0}, 2), fast = over({0}, 100);
  FairShare share({10}, {&slow, &fast});
  share.add(0);
  share.add(1);
  EXPECT_THAT(share.settle(), UnorderedElementsAre(0, 1));
  EXPECT_DOUBLE_EQ(share.rate(0), 2);
  EXPECT_DOUBLE_EQ(share.rate(1), 8);
}

TEST(FairShare, CountsAFlowAsOftenAsItsWeightSays) {
  Route heavy = over({0}, 100);
  heavy.links[0].weight = 3;
  const Route light = over({0}, 100);
  FairShare share({12}, {&heavy, &light});
  share.add(0);
  share.add(1);
  (void)share.settle();
  EXPECT_DOUBLE_EQ(share.rate(0), 3);
  EXPECT_DOUBLE_EQ(share.rate(1), 3);
}

TEST(FairShare, TouchesOnlyWhatIsJoinedByLinks) {
  const Route left = over({0}, 9), right = over({1}, 9), alone = over({}, 7);
  FairShare share({4, 4}, {&left, &right, &alone});
  share.add(0);
  (void)share.settle();
  share.add(1);
  EXPECT_THAT(share.settle(), ElementsAre(1));
  share.add(2);
  EXPECT_THAT(share.settle(), ElementsAre(2));
  EXPECT_THAT(share.settle(), ElementsAre());
  EXPECT_DOUBLE_EQ(share.rate(2), 7);
}

/// Max-min fair: each flow is at its limit, or meets a full link on which nobody has more.
void expect_fair(const FairShare& share, const std::vector<double>& capacity,
                 const std::vector<Route>& routes, const std::vector<bool>& is_there) {
  std::vector<double> used(capacity.size(), 0), most(capacity.size(), 0);
  for (int flow = 0; flow < std::ssize(routes); ++flow) {
    if (!is_there[flow]) continue;
    for (const LinkUse& use : routes[flow].links) {
      used[use.link] += use.weight * share.rate(flow);
      most[use.link] = std::max(most[use.link], share.rate(flow));
    }
  }
  for (std::size_t link = 0; link < capacity.size(); ++link)
    EXPECT_LE(used[link], capacity[link] * (1 + 1e-12));
  for (int flow = 0; flow < std::ssize(routes); ++flow) {
    if (!is_there[flow]) continue;
    double limit = routes[flow].bytes_per_ns;
    for (const LinkUse& use : routes[flow].links)
      limit = std::min(limit, capacity[use.link] / use.weight);
    const bool is_held =
        std::any_of(routes[flow].links.begin(), routes[flow].links.end(), [&](const LinkUse& use) {
          return used[use.link] >= capacity[use.link] * (1 - 1e-12) &&
                 share.rate(flow) >= most[use.link] * (1 - 1e-12);
        });
    EXPECT_TRUE(is_held || share.rate(flow) == limit) << "flow " << flow;
  }
}

TEST(FairShare, IsMaxMinFairWhileFlowsComeAndGo) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "fair share");
    // Equal links and wide ways half the time, as ports have them.
    const bool is_even = random.below(2) == 0;
    std::vector<double> capacity(1 + random.below(5), 8);
    std::vector<Route> routes(1 + random.below(8));
    if (!is_even)
      for (double& each : capacity) each = static_cast<double>(random.between(1, 20));
    for (Route& route : routes) {
      route.bytes_per_ns = is_even ? 8 : static_cast<double>(random.between(1, 15));
      for (int link = 0; link < std::ssize(capacity); ++link)
        if (random.below(2) == 0)
          route.links.push_back({.link = link, .weight = is_even ? 1 : random.uniform() + 0.25});
    }
    std::vector<const Route*> pointers;
    for (const Route& route : routes) pointers.push_back(&route);
    FairShare share(capacity, pointers);
    std::vector<bool> is_there(routes.size(), false);
    for (int change = 0; change < 40; ++change) {
      const auto flow = static_cast<int>(random.below(routes.size()));
      is_there[flow] ? share.remove(flow) : share.add(flow);
      is_there[flow] = !is_there[flow];
      if (random.below(3) == 0) continue;  // several changes at one instant
      std::vector<double> before;
      for (int each = 0; each < std::ssize(routes); ++each) before.push_back(share.rate(each));
      const auto settled = share.settle();
      expect_fair(share, capacity, routes, is_there);
      for (int each = 0; each < std::ssize(routes); ++each) {
        if (!is_there[each] || share.rate(each) == before[each]) continue;
        EXPECT_THAT(settled, ::testing::Contains(each));
      }
    }
  }
}

}  // namespace
}  // namespace tributary::plan
