#include "train/optimizer/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tributary::train {
namespace {

/// How much of [first, end) has passed at `step`, in [0, 1].
double share_passed(std::int64_t step, std::int64_t first, std::int64_t end) {
  if (step >= end) return 1;
  return std::max(0.0, static_cast<double>(step - first) / static_cast<double>(end - first));
}

}  // namespace

double learning_rate_factor(const config::ScheduleSection& schedule, std::int64_t steps,
                            std::int64_t step) {
  const std::int64_t warmup = schedule.warmup_steps;
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double final_ratio = schedule.final_ratio;
  switch (schedule.decay) {
    case config::Decay::kConstant:
      return 1;
    case config::Decay::kLinear:
      return 1 - (1 - final_ratio) * share_passed(step, warmup, steps);
    case config::Decay::kCosine:
      return final_ratio +
             (1 - final_ratio) *
                 (1 + std::cos(std::numbers::pi * share_passed(step, warmup, steps))) / 2;
    case config::Decay::kWarmupStableDecay: {
      const std::int64_t first = std::max(warmup, steps - schedule.decay_steps);
      return 1 - (1 - final_ratio) * share_passed(step, first, steps);
    }
  }
  return 1;
}

}  // namespace tributary::train
