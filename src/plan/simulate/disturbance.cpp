#include "plan/simulate/disturbance.h"

#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace tributary::plan {
namespace {

void require(bool holds, const char* key, double found, const char* expected) {
  TRIB_REQUIRE(holds && std::isfinite(found), .what = "plan: disturbance cannot be drawn",
               .where = key, .found = str(found), .expected = expected);
}

Nanoseconds longer(Nanoseconds time, double factor) {
  return {std::llround(static_cast<double>(time.count) * factor)};
}

}  // namespace

void check_disturbance(const Disturbance& of) {
  require(of.straggler_share >= 0 && of.straggler_share <= 1, "straggler_share", of.straggler_share,
          "0 to 1");
  require(of.straggler_factor >= 1, "straggler_factor", of.straggler_factor, "1 or above");
  require(of.anomaly_share >= 0 && of.anomaly_share <= 1, "anomaly_share", of.anomaly_share,
          "0 to 1");
  require(of.anomaly_factor >= 1, "anomaly_factor", of.anomaly_factor, "1 or above");
  require(of.hours_between_failures >= 0, "hours_between_failures", of.hours_between_failures,
          "0 (none) or above");
  require(of.restart_s >= 0, "restart_s", of.restart_s, "0 or above");
  require(of.checkpoint_steps >= 1, "checkpoint_steps", static_cast<double>(of.checkpoint_steps),
          "1 or above");
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
