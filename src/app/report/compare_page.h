#pragma once

#include <optional>
#include <string>

#include "studies/compare/compare.h"

namespace tributary::app {

/// A comparison as one HTML page that needs nothing else: published figures beside what was found,
/// then each setting with bars and a table.
[[nodiscard]] std::string write_compare_page(const studies::Comparison& comparison);

/// `1.234 s`, `12.3 ms`.

/// A figure's value as its quantity is read: a ratio, hours, a share.
[[nodiscard]] std::string show_figure(config::FigureQuantity quantity, double value);
/// The same of a published figure, which may be a ratio of what its quantity is.
[[nodiscard]] std::string show_figure(const config::PublishedFigure& figure, double value);

/// The methods of a setting by their step; those without a plan last.
[[nodiscard]] std::vector<studies::MethodResult> fastest_first(
    const studies::SettingResult& setting);

/// What a setting's tables show of the devices' time: how occupied they are where that is counted,
/// else how idle.
struct TimeColumn {
  const char* name;
  std::optional<double> studies::MethodResult::*share;
};
[[nodiscard]] TimeColumn time_column(const studies::SettingResult& setting);

/// The published value, or its range.
[[nodiscard]] std::string show_published(const config::PublishedFigure& figure);

/// What an order ranks in a setting, or of a method: that setting or method.
[[nodiscard]] std::string subject_of(const studies::OrderResult& result);

/// Methods or settings with what ranks them, in the published order.
[[nodiscard]] std::string show_order(const studies::OrderResult& result, const char* between);

/// `method against other in setting, against setting`.
[[nodiscard]] std::string describe_figure(const config::PublishedFigure& figure);

}  // namespace tributary::app
