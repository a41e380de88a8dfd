#include "memory/admit/look_ahead_guard.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "core/random.h"

namespace tributary::memory {
namespace {

/// The objects of each step at one owner, by their pages.
using Plan = std::vector<std::vector<std::uint64_t>>;

Plan draw_plan(RandomStream& draw, std::uint64_t largest) {
  Plan plan(8);
  for (std::vector<std::uint64_t>& step : plan)
    for (std::int64_t n = draw.between(1, 4); n > 0; --n)
      step.push_back(
          static_cast<std::uint64_t>(draw.between(1, static_cast<std::int64_t>(largest))));
  return plan;
}

std::uint64_t sum(const std::vector<std::uint64_t>& pages) {
  return std::accumulate(pages.begin(), pages.end(), std::uint64_t{0});
}

enum class Order { kRandom, kLatestFirst };
enum class Rule { kGuard, kAllButTheReserve };

/// Makes objects as long as a rule admits any; a step commits when it is whole. Returns whether all
/// steps commit.
bool finishes(const Plan& plan, OwnerCapacity capacity, Order order, Rule rule,
              RandomStream& draw) {
  Plan missing = plan;
  std::vector<std::uint64_t> held(plan.size());
  std::uint64_t low = 0;
  while (low < plan.size()) {
    std::vector<StepPages> steps;
    for (std::uint64_t step = low; step < plan.size(); ++step)
      steps.push_back({.step = step, .planned = sum(plan[step]), .held = held[step]});
    const std::uint64_t used = sum(held);
    std::vector<std::pair<std::uint64_t, std::size_t>> admitted;
    for (std::uint64_t step = low; step < plan.size(); ++step)
      for (std::size_t i = 0; i < missing[step].size(); ++i) {
        const std::uint64_t pages = missing[step][i];
        const bool is_admitted =
            rule == Rule::kGuard ? may_look_ahead(capacity, steps, step, pages)
                                 : step == low || used + pages <= capacity.pages - capacity.reserve;
        if (used + pages <= capacity.pages && is_admitted) admitted.emplace_back(step, i);
      }
    if (admitted.empty()) return false;
    const auto [step, i] =
        order == Order::kRandom ? draw.pick(std::span(admitted)) : admitted.back();
    held[step] += missing[step][i];
    missing[step].erase(missing[step].begin() + static_cast<std::ptrdiff_t>(i));
    for (; low < plan.size() && missing[low].empty(); ++low) held[low] = 0;
  }
  return true;
}

TEST(LookAheadGuard, NeverStallsWithTheSmallestCapacity) {  // I12
  int weak_stalls = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    RandomStream draw(seed, "look_ahead_guard_test");
    const std::uint64_t reserve = 1 + draw.below(5);
    const Plan plan = draw_plan(draw, reserve);
    OwnerCapacity capacity{.pages = reserve, .reserve = reserve};
    for (const std::vector<std::uint64_t>& step : plan)
      capacity.pages = std::max(capacity.pages, reserve + sum(step));
    for (const Order order : {Order::kRandom, Order::kLatestFirst})
      EXPECT_TRUE(finishes(plan, capacity, order, Rule::kGuard, draw)) << seed;
    weak_stalls +=
        finishes(plan, capacity, Order::kLatestFirst, Rule::kAllButTheReserve, draw) ? 0 : 1;
  }
  EXPECT_GT(weak_stalls, 250);  // the rule that looks as good is not
}

TEST(LookAheadGuard, IsTheRuleForEveryOlderStep) {
  const auto held = [](const std::vector<StepPages>& steps, std::uint64_t after) {
    std::uint64_t pages = 0;
    for (const StepPages& step : steps) pages += step.step > after ? step.held : 0;
    return static_cast<std::int64_t>(pages);
  };
  int admitted = 0, excesses = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    RandomStream draw(seed, "look_ahead_guard_rule");
    const OwnerCapacity capacity{.pages = 4 + draw.below(20), .reserve = 1 + draw.below(4)};
    std::vector<StepPages> steps(4);
    for (std::uint64_t i = 0; i < 4; ++i)
      steps[i] = {.step = 5 + i, .planned = draw.below(12), .held = draw.below(4)};
    const std::uint64_t step = 5 + draw.below(4), pages = 1 + draw.below(4);
    bool holds = true, exceeds = false;
    for (const StepPages& older : steps) {
      const std::int64_t room = static_cast<std::int64_t>(capacity.pages) -
                                static_cast<std::int64_t>(capacity.reserve + older.planned);
      // Where a step alone fills the owner, later ones have no room at all.
      const std::int64_t usable = std::max<std::int64_t>(room, 0);
      if (older.step < step)
        holds &= held(steps, older.step) + static_cast<std::int64_t>(pages) <= usable;
      exceeds |= held(steps, older.step) > usable;
    }
    EXPECT_EQ(may_look_ahead(capacity, steps, step, pages), holds) << seed;
    EXPECT_EQ(holds_too_much(capacity, steps), exceeds) << seed;
    admitted += holds && step > 5 ? 1 : 0;
    excesses += exceeds ? 1 : 0;
  }
  EXPECT_GT(admitted, 20);
  EXPECT_GT(excesses, 20);
}

}  // namespace
}  // namespace tributary::memory
