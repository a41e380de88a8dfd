#include "schedule/correct_costs/cost_corrector.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "schedule/balance/balance.h"

namespace tributary::schedule {
namespace {

void check_options(const CorrectionOptions& options) {
  const auto check = [](bool is_sound, const char* where, auto found, const char* expected) {
    TRIB_REQUIRE(is_sound, .what = "schedule: correction option out of range", .where = where,
                 .found = str(found), .expected = expected);
  };
  check(options.warm_up_steps > options.discarded_steps, "warm_up_steps", options.warm_up_steps,
        "more than discarded_steps");
  check(options.discarded_steps >= 0, "discarded_steps", options.discarded_steps, "0 or above");
  check(options.window_steps >= 1, "window_steps", options.window_steps, "1 or above");
  check(options.rest_windows >= 1, "rest_windows", options.rest_windows, "1 or above");
  check(options.memory_steps >= 1, "memory_steps", options.memory_steps, "1 or above");
  check(options.weight_of_one > 0 && std::isfinite(options.weight_of_one), "weight_of_one",
        options.weight_of_one, "above 0, and finite");
  check(options.lowest_ratio > 0 && options.lowest_ratio <= 1, "lowest_ratio", options.lowest_ratio,
        "above 0, at most 1");
  check(options.highest_ratio >= 1 && std::isfinite(options.highest_ratio), "highest_ratio",
        options.highest_ratio, "1 or above, and finite");
  check(options.min_buckets >= 1, "min_buckets", options.min_buckets, "1 or above");
  check(options.residual_band > 0, "residual_band", options.residual_band, "above 0");
  check(options.residual_steps >= 1, "residual_steps", options.residual_steps, "1 or above");
}

Nanoseconds scale(Nanoseconds predicted, double ratio) {
  return {std::llround(static_cast<double>(predicted.count) * ratio)};
}

double share_saved(const MeasuredStep& step) {
  if (step.value_without.count == 0) return 0;
  return 1 -
         static_cast<double>(step.value_used.count) / static_cast<double>(step.value_without.count);
}

}  // namespace

CostCorrector::CostCorrector(const CorrectionOptions& options, CorrectionState state)
    : options_(options), state_(std::move(state)) {
  check_options(options_);
}

bool CostCorrector::is_measuring() const {
  return state_.phase == CorrectionPhase::kCosting || state_.phase == CorrectionPhase::kOn;
}

Nanoseconds CostCorrector::correct(const CostKey& key, Nanoseconds predicted) const {
  const auto found = state_.ratios.find(key);
  const bool is_known =
      found != state_.ratios.end() && found->second.buckets >= options_.min_buckets;
  return is_known ? scale(predicted, found->second.ratio) : predicted;
}

Nanoseconds CostCorrector::judge(const CostKey& key, Nanoseconds predicted) const {
  const auto found = state_.ratios.find(key);
  return found == state_.ratios.end() ? predicted : scale(predicted, found->second.ratio);
}

void CostCorrector::learn(std::span<const MeasuredBucket> buckets) {
  if (buckets.empty()) return;
  state_.equations.forget(std::exp(-1 / static_cast<double>(options_.memory_steps)));
  for (const MeasuredBucket& bucket : buckets) {
    state_.equations.add(bucket, options_.lowest_ratio, options_.highest_ratio);
    for (const PredictedShare& share : bucket.shares)
      if (share.time.count > 0) ++state_.ratios[share.key].buckets;
  }
  for (const auto& [key, ratio] : state_.equations.solve(options_.weight_of_one))
    state_.ratios[key].ratio = std::clamp(ratio, options_.lowest_ratio, options_.highest_ratio);
}

void CostCorrector::enter(CorrectionPhase phase) {
  state_.phase = phase;
  state_.steps = 0;
  state_.benefit = 0;
  state_.residual = 0;
  state_.steps_outside = 0;
}

void CostCorrector::weigh_cost() {
  const auto steps = static_cast<double>(options_.warm_up_steps);
  const double on = state_.slowness_on / steps;
  const double off = state_.slowness_off / (steps - static_cast<double>(options_.discarded_steps));
  state_.cost = std::max(0.0, (on - off) / on);
}

void CostCorrector::end_window() {
  const auto steps = static_cast<double>(options_.window_steps);
  const bool does_pay = state_.benefit / steps > state_.cost;
  state_.usual_residual = state_.residual / steps;
  enter(does_pay ? CorrectionPhase::kOn : CorrectionPhase::kOff);
}

void CostCorrector::watch_residual(double residual) {
  const bool is_outside = std::abs(residual / state_.usual_residual - 1) > options_.residual_band;
  state_.steps_outside = is_outside ? state_.steps_outside + 1 : 0;
  if (state_.steps_outside >= options_.residual_steps ||
      state_.steps >= options_.rest_windows * options_.window_steps) {
    enter(CorrectionPhase::kOn);
  }
}

void CostCorrector::end_step(const MeasuredStep& step) {
  TRIB_REQUIRE(step.time.count > 0 && step.predicted.count > 0 && step.table.count > 0,
               .what = "schedule: time of a step is not above 0",
               .found = str(step.time, " measured, ", step.predicted, " predicted, ", step.table,
                            " by the table"));
  TRIB_REQUIRE(is_measuring() || step.buckets.empty(),
               .what = "schedule: spans of a step that was not to be measured",
               .found = str(step.buckets.size(), " buckets"));
  learn(step.buckets);
  const double slowness = static_cast<double>(step.time.count) / (1 - share_saved(step)) /
                          static_cast<double>(step.table.count);
  const double residual =
      static_cast<double>(step.time.count) / static_cast<double>(step.predicted.count);
  ++state_.steps;
  switch (state_.phase) {
    case CorrectionPhase::kBaseline:
      if (state_.steps > options_.discarded_steps) state_.slowness_off += slowness;
      if (state_.steps == options_.warm_up_steps) enter(CorrectionPhase::kCosting);
      break;
    case CorrectionPhase::kCosting:
      state_.slowness_on += slowness;
      if (state_.steps < options_.warm_up_steps) break;
      weigh_cost();
      enter(CorrectionPhase::kOn);
      break;
    case CorrectionPhase::kOn:
      state_.benefit += share_saved(step);
      state_.residual += residual;
      if (state_.steps == options_.window_steps) end_window();
      break;
    case CorrectionPhase::kOff:
      watch_residual(residual);
      break;
  }
}

Nanoseconds judge_arrangement(const CostCorrector& corrector, std::span<const PredictedShare> items,
                              std::int64_t dimensions, std::span<const std::int32_t> bucket_of,
                              std::int64_t buckets) {
  std::vector<std::int64_t> loads;
  loads.reserve(items.size());
  for (const PredictedShare& item : items) {
    loads.push_back(corrector.judge(item.key, item.time).count);
  }
  return {balance_value({.buckets = buckets, .dimensions = dimensions, .loads = loads}, bucket_of)};
}

}  // namespace tributary::schedule
