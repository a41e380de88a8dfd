#include "simulate/engine/fair_share.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "core/random.h"

namespace tributary::simulate {
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
  std::vector<double> used(capacity.size(), 0), max(capacity.size(), 0);
  for (int flow = 0; flow < std::ssize(routes); ++flow) {
    if (!is_there[flow]) continue;
    for (const LinkUse& use : routes[flow].links) {
      used[use.link] += use.weight * share.rate(flow);
      max[use.link] = std::max(max[use.link], share.rate(flow));
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
                 share.rate(flow) >= max[use.link] * (1 - 1e-12);
        });
    EXPECT_TRUE(is_held || share.rate(flow) == limit) << "flow " << flow;
  }
}

struct Links {
  std::vector<double> capacity;
  std::vector<Route> routes;  // [flows]

  [[nodiscard]] std::vector<const Route*> pointers() const {
    std::vector<const Route*> pointers;
    for (const Route& route : routes) pointers.push_back(&route);
    return pointers;
  }
};

/// Equal links and wide ways half the time, as ports have them.
Links draw_links(RandomStream& random) {
  const bool is_even = random.below(2) == 0;
  Links drawn{.capacity = std::vector<double>(1 + random.below(5), 8),
              .routes = std::vector<Route>(1 + random.below(8))};
  if (!is_even)
    for (double& each : drawn.capacity) each = static_cast<double>(random.between(1, 20));
  for (Route& route : drawn.routes) {
    route.bytes_per_ns = is_even ? 8 : static_cast<double>(random.between(1, 15));
    for (int link = 0; link < std::ssize(drawn.capacity); ++link)
      if (random.below(2) == 0)
        route.links.push_back({.link = link, .weight = is_even ? 1 : random.uniform() + 0.25});
  }
  return drawn;
}

/// Flows come and go; after some changes `look` sees who is there, before anything is settled.
template <class Look>
void come_and_go(RandomStream& random, const Links& drawn, FairShare& share, const Look& look) {
  std::vector<bool> is_there(drawn.routes.size(), false);
  for (int change = 0; change < 40; ++change) {
    const auto flow = static_cast<int>(random.below(drawn.routes.size()));
    is_there[flow] ? share.remove(flow) : share.add(flow);
    is_there[flow] = !is_there[flow];
    if (random.below(3) > 0) look(is_there);  // else several changes at one instant
  }
}

TEST(FairShare, IsMaxMinFairWhileFlowsComeAndGo) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "fair share");
    const Links drawn = draw_links(random);
    const auto flows = static_cast<int>(drawn.routes.size());
    FairShare share(drawn.capacity, drawn.pointers());
    come_and_go(random, drawn, share, [&](const std::vector<bool>& is_there) {
      std::vector<double> before;
      for (int each = 0; each < flows; ++each) before.push_back(share.rate(each));
      const auto settled = share.settle();
      expect_fair(share, drawn.capacity, drawn.routes, is_there);
      for (int each = 0; each < flows; ++each) {
        if (!is_there[each] || share.rate(each) == before[each]) continue;
        EXPECT_THAT(settled, ::testing::Contains(each));
        ++changed;
      }
    });
  }
  EXPECT_GT(changed, 5000);
}

/// [0, size) in any order.
std::vector<int> draw_permutation(RandomStream& random, std::size_t size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(std::span(order));
  return order;
}

/// Shares links among flows under other numbers, which come all at once; returns the rates under
/// the numbers of before.
std::vector<double> rates_under_other_numbers(RandomStream& random, const Links& of,
                                              const std::vector<bool>& is_there) {
  const std::vector<int> link_of = draw_permutation(random, of.capacity.size());
  const std::vector<int> flow_of = draw_permutation(random, of.routes.size());
  Links other = of;
  for (std::size_t link = 0; link < link_of.size(); ++link)
    other.capacity[link_of[link]] = of.capacity[link];
  for (std::size_t flow = 0; flow < flow_of.size(); ++flow) {
    Route route = of.routes[flow];
    for (LinkUse& use : route.links) use.link = link_of[use.link];
    random.shuffle(std::span(route.links));
    other.routes[flow_of[flow]] = route;
  }
  FairShare share(other.capacity, other.pointers());
  for (const int flow : draw_permutation(random, flow_of.size()))
    if (is_there[flow]) share.add(flow_of[flow]);
  (void)share.settle();
  std::vector<double> rates;
  for (const int flow : flow_of) rates.push_back(share.rate(flow));
  return rates;
}

TEST(FairShare, RatesFollowFromTheFlowsThatAreThereAlone) {
  int shared = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "other numbers");
    const Links drawn = draw_links(random);
    FairShare share(drawn.capacity, drawn.pointers());
    come_and_go(random, drawn, share, [&](const std::vector<bool>& is_there) {
      (void)share.settle();
      const std::vector<double> expected = rates_under_other_numbers(random, drawn, is_there);
      for (int each = 0; each < std::ssize(drawn.routes); ++each) {
        if (!is_there[each]) continue;
        ASSERT_EQ(share.rate(each), expected[each]) << "flow " << each;
        shared += share.rate(each) < drawn.routes[each].bytes_per_ns ? 1 : 0;
      }
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(shared, 10000);
}

}  // namespace
}  // namespace tributary::simulate
