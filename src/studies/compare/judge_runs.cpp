#include "studies/compare/judge_runs.h"

#include <algorithm>
#include <utility>

namespace tributary::studies {
namespace {

/// The methods that ran by themselves.
std::vector<const MethodResult*> that_ran(const SettingResult& setting) {
  std::vector<const MethodResult*> methods;
  for (const MethodResult& method : setting.methods)
    if (method.run && method.run->same_as.empty() && method.run->median_s())
      methods.push_back(&method);
  return methods;
}

/// The same setting with measured steps in place of simulated ones.
SettingResult measured(SettingResult setting) {
  for (MethodResult& method : setting.methods) {
    const std::optional<double> step =
        method.run ? method.run->median_s() : std::optional<double>();
    method.mfu = step && method.step_s > 0 ? method.mfu * method.step_s / *step : 0;
    method.step_s = step.value_or(0);
    method.idle_share.reset();
    method.bubble_share.reset();
  }
  return setting;
}

}  // namespace

std::optional<double> MethodRun::median_s() const {
  if (rounds_s.empty()) return std::nullopt;
  std::vector<double> sorted = rounds_s;
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

PairOrder judge_pairs(const SettingResult& setting) {
  PairOrder order;
  const std::vector<const MethodResult*> methods = that_ran(setting);
  for (std::size_t i = 0; i < methods.size(); ++i)
    for (std::size_t k = i + 1; k < methods.size(); ++k) {
      const MethodRun& one = *methods[i]->run;
      const MethodRun& other = *methods[k]->run;
      const double simulated = methods[i]->step_s - methods[k]->step_s;
      const bool is_right = simulated * (*one.median_s() - *other.median_s()) > 0;
      const auto [min, max] = std::ranges::minmax(one.rounds_s);
      const auto [other_min, other_max] = std::ranges::minmax(other.rounds_s);
      const bool is_apart = max < other_min || other_max < min;
      ++order.pairs;
      order.right += is_right ? 1 : 0;
      order.apart += is_apart ? 1 : 0;
      order.apart_right += is_apart && is_right ? 1 : 0;
    }
  return order;
}

void judge_measured(const config::Study& study, Comparison& comparison) {
  Comparison of_runs;
  for (const SettingResult& setting : comparison.settings)
    of_runs.settings.push_back(measured(setting));
  judge_figures(study, of_runs);
  for (std::size_t i = 0; i < comparison.figures.size(); ++i)
    comparison.figures[i].measured = of_runs.figures[i].found;
  for (std::size_t i = 0; i < comparison.orders.size(); ++i) {
    comparison.orders[i].measured = std::move(of_runs.orders[i].values);
    comparison.orders[i].measured_holds = of_runs.orders[i].holds;
  }
}

}  // namespace tributary::studies
