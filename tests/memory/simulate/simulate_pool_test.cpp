#include "memory/simulate/simulate_pool.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <numeric>
#include <string>

#include "core/text.h"

namespace tributary::memory {
namespace {

/// 2,000 seeds, or as many as TRIB_SIMULATE_SEEDS says from TRIB_SIMULATE_FIRST on.
std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

TEST(SimulatePool, KeepsItsInvariantsUnderRandomFaults) {
  const std::uint64_t first = number_from("TRIB_SIMULATE_FIRST", 0);
  const std::uint64_t seeds = number_from("TRIB_SIMULATE_SEEDS", 2000);
  SimulatedRun sum;
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + seeds && failures < 10; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    try {
      const SimulatedRun run = simulate_pool(draw_workload(seed));
      sum.events += run.events;
      sum.restarts += run.restarts;
      sum.replacements += run.replacements;
      sum.gets += run.gets;
      sum.failed_gets += run.failed_gets;
      sum.refused += run.refused;
      sum.time += run.time;
    } catch (const std::exception& error) {
      ++failures;
      ADD_FAILURE() << error.what();
    }
  }
  std::cout << sum.events << " events, " << sum.restarts << " restarts, " << sum.replacements
            << " replacements, " << sum.gets << " gets, " << sum.failed_gets << " failed, "
            << sum.refused << " refused, " << sum.time << "\n";
}

}  // namespace
}  // namespace tributary::memory
