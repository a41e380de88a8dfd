#include "plan/simulate/disturbance.h"

#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace tributary::plan {
namespace {

constexpr double kMostFactor = 1000;  // two of them still leave room for passes of weeks
constexpr double kMostTime = 1e9;

Nanoseconds longer(Nanoseconds time, double factor) {
  return {std::llround(static_cast<double>(time.count) * factor)};
}

}  // namespace

void check_disturbance(const Disturbance& of, const ArgumentNames& name_of) {
  const auto require = [&](const char* name, double found, double least, double most) {
    TRIB_REQUIRE(found >= least && found <= most, .what = "plan: disturbance cannot be drawn",
                 .where = name_of(name), .found = str(found), .expected = str(least, " to ", most));
  };
  require("stragglers", of.straggler_share, 0, 1);
  require("straggler_factor", of.straggler_factor, 1, kMostFactor);
  require("anomalies", of.anomaly_share, 0, 1);
  require("anomaly_factor", of.anomaly_factor, 1, kMostFactor);
  require("failure_hours", of.hours_between_failures, 0, kMostTime);
  require("restart_seconds", of.restart_s, 0, kMostTime);
  require("checkpoint_steps", static_cast<double>(of.checkpoint_steps), 1, kMostTime);
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
  double useful = 0;
  double since_checkpoint = 0;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    RandomStream random(seed, "failure", step);
    const double seconds = 1e-9 * static_cast<double>(steps[step].count);
    // A step that fails is lost up to the failure, with the work since the checkpoint; it and that
    // work run again, and the draw of a step is made once, so a run always comes to its end.
    const double until = -std::log(1 - random.uniform()) / per_second;
    if (until < seconds) {
      ++cost.failures;
      cost.lost_s += until + since_checkpoint + disturbance.restart_s;
    }
    useful += seconds;
    since_checkpoint += seconds;
    if ((static_cast<std::int64_t>(step) + 1) % disturbance.checkpoint_steps == 0)
      since_checkpoint = 0;
  }
  cost.goodput = useful / (useful + cost.lost_s);
  return cost;
}

}  // namespace tributary::plan
