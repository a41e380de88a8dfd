#include <algorithm>
#include <cmath>

#include "studies/compare/compare.h"

namespace tributary::studies {
namespace {

using config::FigureQuantity;
using config::PublishedFigure;

/// A method in a setting, with what ratios need of both.
struct Place {
  const SettingResult* setting = nullptr;
  const MethodResult* method = nullptr;
  double run_samples = 0;

  [[nodiscard]] bool has_plan() const { return method != nullptr && method->step_s > 0; }
  [[nodiscard]] double samples_per_second() const {
    return static_cast<double>(setting->global_samples) / method->step_s;
  }
  /// Device seconds for each sample in a fraction of the devices' time.
  [[nodiscard]] double device_seconds(double share) const {
    return share * static_cast<double>(setting->devices) / samples_per_second();
  }
};

Place find_place(const config::Study& study, const Comparison& comparison,
                 const std::string& setting, const std::string& method) {
  Place place;
  for (const SettingResult& each : comparison.settings)
    if (each.name == setting) place.setting = &each;
  if (place.setting == nullptr) return place;
  place.method = place.setting->find(method);
  for (const config::StudySetting& each : study.settings)
    if (each.name == setting) place.run_samples = static_cast<double>(each.run_samples);
  return place;
}

/// 1 - device seconds of a sample over those of `against`; null where either is unknown.
std::optional<double> reduction(const Place& place, const Place& against,
                                std::optional<double> MethodResult::*share) {
  const std::optional<double>& mine = place.method->*share;
  const std::optional<double>& theirs = against.method->*share;
  constexpr double kRounding = 1e-6;  // passes are timed in whole nanoseconds
  if (!mine || !theirs || *theirs <= kRounding) return std::nullopt;
  return 1 - place.device_seconds(*mine) / against.device_seconds(*theirs);
}

std::optional<double> find_value(const PublishedFigure& figure, const Place& place,
                                 const Place& against) {
  if (!place.has_plan()) return std::nullopt;
  switch (figure.quantity) {
    case FigureQuantity::kMfu:
      return place.method->mfu;
    case FigureQuantity::kHours:
      if (place.run_samples == 0) return std::nullopt;
      return place.run_samples / place.samples_per_second() / 3600;
    default:
      break;
  }
  if (!against.has_plan()) return std::nullopt;
  if (figure.quantity == FigureQuantity::kSpeedup)
    return place.samples_per_second() / against.samples_per_second();
  if (figure.quantity == FigureQuantity::kMfuGap) return against.method->mfu - place.method->mfu;
  return reduction(place, against,
                   figure.quantity == FigureQuantity::kIdleReduction ? &MethodResult::idle_share
                                                                     : &MethodResult::bubble_share);
}

/// The deviation; 0 inside a range, and where the value rounds to an end of it.
double deviation_of(const PublishedFigure& figure, double found) {
  if (figure.digits) {
    const double scale = std::pow(10.0, static_cast<double>(*figure.digits));
    const double rounded = std::round(found * scale) / scale;
    if (figure.min <= rounded && rounded <= figure.max) return 0;
  }
  const double nearest = std::clamp(found, figure.min, figure.max);
  return nearest == 0 ? found : found / nearest - 1;
}

std::optional<double> find_value_in(const PublishedFigure& figure, const config::Study& study,
                                    const Comparison& comparison, const std::string& setting,
                                    const std::string& against_setting) {
  const Place place = find_place(study, comparison, setting, figure.method);
  const Place against = find_place(study, comparison, against_setting,
                                   figure.against.empty() ? figure.method : figure.against);
  return find_value(figure, place, against);
}

/// Null where a setting has no value.
template <class ValueIn>
std::optional<double> mean_over(const std::vector<std::string>& settings, const ValueIn& value_in) {
  double sum = 0;
  for (const std::string& setting : settings) {
    const std::optional<double> found = value_in(setting);
    if (!found) return std::nullopt;
    sum += *found;
  }
  return sum / static_cast<double>(settings.size());
}

/// The mean over settings, or the ratio of two such means.
std::optional<double> find_occupancy(const PublishedFigure& figure, const config::Study& study,
                                     const Comparison& comparison) {
  const auto share = figure.quantity == FigureQuantity::kOccupancy ? &MethodResult::occupancy
                                                                   : &MethodResult::min_occupancy;
  const auto mean_of = [&](const std::string& method, const std::vector<std::string>& settings) {
    return mean_over(settings, [&](const std::string& setting) {
      const Place place = find_place(study, comparison, setting, method);
      return place.has_plan() ? place.method->*share : std::nullopt;
    });
  };
  std::vector<std::string> settings = figure.settings;
  if (settings.empty()) settings = {figure.setting};
  const std::optional<double> found = mean_of(figure.method, settings);
  if (!found || !figure.is_set_against()) return found;
  if (!figure.against_setting.empty()) settings = {figure.against_setting};
  const std::optional<double> against =
      mean_of(figure.against.empty() ? figure.method : figure.against, settings);
  if (!against || *against <= 0) return std::nullopt;
  return *found / *against;
}

std::optional<double> find(const PublishedFigure& figure, const config::Study& study,
                           const Comparison& comparison) {
  if (figure.is_of_occupancy()) return find_occupancy(figure, study, comparison);
  if (!figure.settings.empty())
    return mean_over(figure.settings, [&](const std::string& setting) {
      return find_value_in(figure, study, comparison, setting, setting);
    });
  return find_value_in(figure, study, comparison, figure.setting,
                       figure.against_setting.empty() ? figure.setting : figure.against_setting);
}

FigureResult judge(const PublishedFigure& figure, const config::Study& study,
                   const Comparison& comparison) {
  FigureResult result{.figure = figure, .found = find(figure, study, comparison)};
  if (result.found) result.deviation = deviation_of(figure, *result.found);
  return result;
}

/// Judges whether numbers above 0 ascend; 0 stands for a method without a plan.
void set_verdict(const std::vector<double>& ascending, OrderResult& result) {
  constexpr double kTie = 1e-3;  // relative to the larger
  result.holds = true;
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    result.holds = result.holds && ascending[i] > 0;
    for (std::size_t before = 0; before < i; ++before) {
      const double ahead = ascending[i] - ascending[before];
      const bool is_tie = std::abs(ahead) <= kTie * std::max(ascending[i], ascending[before]);
      result.holds = result.holds && (is_tie || ahead > 0);
      result.is_tie = result.is_tie || is_tie;
    }
  }
  result.is_tie = result.is_tie && result.holds;
}

/// The value that ranks a method; 0 where it has no plan.
double rank_value(config::RankedBy by, const Place& place, const Place& against) {
  if (!place.has_plan()) return 0;
  switch (by) {
    case config::RankedBy::kStep:
      return place.method->step_s;
    case config::RankedBy::kMfu:
      return place.method->mfu;
    case config::RankedBy::kOccupancy:
      return place.method->occupancy.value_or(0);
    case config::RankedBy::kSpeedup:
      return against.has_plan() ? against.method->step_s / place.method->step_s : 0;
  }
  return 0;
}

OrderResult judge(const config::PublishedOrder& order, const config::Study& study,
                  const Comparison& comparison) {
  OrderResult result{.order = order};
  for (const config::RankedMethod& each : order.ranked)
    result.values.push_back(rank_value(order.by,
                                       find_place(study, comparison, each.setting, each.method),
                                       find_place(study, comparison, each.setting, each.against)));
  // For all quantities except steps the highest comes first.
  set_verdict(order.by == config::RankedBy::kStep
                  ? result.values
                  : std::vector<double>(result.values.rbegin(), result.values.rend()),
              result);
  return result;
}

}  // namespace

void judge_figures(const config::Study& study, Comparison& comparison) {
  const auto has_setting = [&](const std::string& name) {
    return name.empty() ||
           std::any_of(comparison.settings.begin(), comparison.settings.end(),
                       [&](const SettingResult& each) { return each.name == name; });
  };
  for (const PublishedFigure& figure : study.figures) {
    if (has_setting(figure.setting) && has_setting(figure.against_setting) &&
        std::all_of(figure.settings.begin(), figure.settings.end(), has_setting))
      comparison.figures.push_back(judge(figure, study, comparison));
  }
  for (const config::PublishedOrder& order : study.orders) {
    if (std::ranges::all_of(order.ranked, has_setting, &config::RankedMethod::setting))
      comparison.orders.push_back(judge(order, study, comparison));
  }
}

bool is_kept(const FigureResult& result, double tolerance) {
  if (!result.found) return false;
  const bool is_range = result.figure.min != result.figure.max;
  return std::abs(result.deviation) <= (is_range ? 0 : tolerance);
}

FigureCount count_within(const Comparison& comparison, double tolerance) {
  FigureCount count;
  for (const FigureResult& figure : comparison.figures) {
    ++count.all;
    if (is_kept(figure, tolerance)) ++count.within;
  }
  return count;
}

}  // namespace tributary::studies
