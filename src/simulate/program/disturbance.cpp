#include "simulate/program/disturbance.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace tributary::simulate {
namespace {

constexpr int kMaxTries = 10'000;  // at the work between two checkpoints

Nanoseconds longer(Nanoseconds time, double factor) {
  return {std::llround(static_cast<double>(time.count) * factor)};
}

}  // namespace

void check_disturbance(const Disturbance& of) {
  const auto require = [&](const char* name, double found, double min, double max) {
    TRIB_REQUIRE(found >= min && found <= max, .what = "simulate: disturbance cannot be drawn",
                 .where = name, .found = str(found), .expected = str(min, " to ", max));
  };
  require("stragglers", of.straggler_share, 0, 1);
  require("straggler_factor", of.straggler_factor, 1, kMaxSlowdown);
  require("anomalies", of.anomaly_share, 0, 1);
  require("anomaly_factor", of.anomaly_factor, 1, kMaxSlowdown);
  require("failure_hours", of.hours_between_failures, 0, kLongestTime);
  require("restart_seconds", of.restart_s, 0, kLongestTime);
  require("checkpoint_steps", static_cast<double>(of.checkpoint_steps), 1, kLongestTime);
}

void disturb_step(const StepProgram& program, const Disturbance& disturbance,
                  const std::vector<std::int64_t>& ranks, std::uint64_t seed, std::uint64_t step,
                  StepLoad& load) {
  for (int lane = 0; lane < program.lanes(); ++lane) {
    RandomStream random(seed, "disturbance", step, static_cast<std::uint64_t>(lane));
    const double none_slow =
        std::pow(1 - disturbance.straggler_share, static_cast<double>(ranks[lane]));
    const double factor = random.uniform() >= none_slow ? disturbance.straggler_factor : 1;
    for (int action = program.first_action(lane); action < program.first_action(lane + 1);
         ++action) {
      if (program.kind(action) != StepKind::kPass) continue;
      const bool odd = random.uniform() < disturbance.anomaly_share;
      load.duration[action] =
          longer(load.duration[action], odd ? factor * disturbance.anomaly_factor : factor);
    }
  }
}

FailureCost play_failures(const Disturbance& disturbance, std::int64_t ranks,
                          const std::vector<Nanoseconds>& steps, std::uint64_t seed) {
  FailureCost cost;
  if (disturbance.hours_between_failures == 0 || steps.empty()) return cost;
  const double per_second =
      static_cast<double>(ranks) / (3600 * disturbance.hours_between_failures);
  RandomStream random(seed, "failure");
  double useful_s = 0;
  const auto count = static_cast<std::int64_t>(steps.size());
  for (std::int64_t first = 0; first < count; first += disturbance.checkpoint_steps) {
    double work_s = 0;  // until the next checkpoint, or the end
    for (std::int64_t step = first; step < std::min(count, first + disturbance.checkpoint_steps);
         ++step)
      work_s += seconds_of(steps[step]);
    for (int tries = 1;; ++tries) {
      const double until_s = -std::log(1 - random.uniform()) / per_second;
      if (until_s >= work_s) break;
      ++cost.failures;
      cost.lost_s += until_s + disturbance.restart_s;
      if (tries < kMaxTries) continue;
      cost.goodput = 0;
      return cost;
    }
    useful_s += work_s;
  }
  cost.goodput = useful_s / (useful_s + cost.lost_s);
  return cost;
}

}  // namespace tributary::simulate
