#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.h"
#include "schedule/balance/balance.h"

namespace tributary::schedule {

/// A problem that owns its loads.
struct OwnedProblem {
  std::int64_t buckets = 1;
  std::int64_t dimensions = 1;
  std::vector<std::int64_t> loads;      // [items, dimensions]
  std::vector<std::int64_t> held = {};  // [dimensions], or none

  [[nodiscard]] BalanceProblem view() const {
    return {.buckets = buckets, .dimensions = dimensions, .loads = loads, .held = held};
  }
  [[nodiscard]] std::int64_t items() const { return std::ssize(loads) / dimensions; }
};

inline OwnedProblem random_problem(RandomStream& random, std::int64_t items, std::int64_t buckets,
                                   std::int64_t dimensions, std::int64_t largest) {
  OwnedProblem problem = {.buckets = buckets, .dimensions = dimensions, .loads = {}};
  problem.loads.resize(static_cast<std::size_t>(items * dimensions));
  for (std::int64_t& load : problem.loads) load = random.between(0, largest);
  return problem;
}

/// The least value over all bucket numbers for all items; nothing is skipped.
inline std::int64_t min_value(const OwnedProblem& problem) {
  std::vector<std::int32_t> bucket_of(static_cast<std::size_t>(problem.items()));
  std::int64_t min = std::numeric_limits<std::int64_t>::max();
  while (true) {
    min = std::min(min, balance_value(problem.view(), bucket_of));
    std::size_t item = 0;
    while (item < bucket_of.size() && ++bucket_of[item] == problem.buckets) bucket_of[item++] = 0;
    if (item == bucket_of.size()) return min;
  }
}

/// Samples whose encoder load is a number of tiles and whose backbone load grows faster than
/// tokens.
inline OwnedProblem mixture(std::uint64_t seed, std::int64_t items, std::int64_t buckets) {
  RandomStream random(seed, "mixture");
  OwnedProblem problem = {.buckets = buckets, .dimensions = 2, .loads = {}};
  for (std::int64_t item = 0; item < items; ++item) {
    const std::int64_t tiles = random.between(1, 30);
    const std::int64_t tokens = 210 * tiles + random.between(40, 3000);
    problem.loads.push_back(tiles * 500'000);
    problem.loads.push_back(tokens * 1000 + tokens * tokens / 25);
  }
  return problem;
}

}  // namespace tributary::schedule
