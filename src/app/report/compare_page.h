#pragma once

#include <optional>
#include <string>

#include "studies/compare/compare.h"

namespace tributary::app {

/// A comparison as one self-contained HTML page: published figures beside those that were found,
/// then each setting with bars and a table. A setting that ran has its measured steps beside them.
[[nodiscard]] std::string write_compare_page(const studies::Comparison& comparison);

/// The value of a figure in the form of its quantity: a ratio, hours, a share.
[[nodiscard]] std::string show_figure(config::FigureQuantity quantity, double value);
/// The value of a published figure, which may also be a ratio between two methods.
[[nodiscard]] std::string show_figure(const config::PublishedFigure& figure, double value);

/// The methods of a setting, the fastest first; those without a plan last.
[[nodiscard]] std::vector<studies::MethodResult> fastest_first(
    const studies::SettingResult& setting);

/// The column of a setting's tables on the devices' time: their occupancy where it was computed,
/// else their idle share.
struct TimeColumn {
  const char* name;
  std::optional<double> studies::MethodResult::*share;
};
[[nodiscard]] TimeColumn time_column(const studies::SettingResult& setting);

/// The published value, or its range.
[[nodiscard]] std::string show_published(const config::PublishedFigure& figure);

/// A name as HTML that a browser may break after an underscore, and nowhere else.
[[nodiscard]] std::string breakable(const std::string& name);

/// The setting or the method that an order belongs to.
[[nodiscard]] std::string subject_of(const studies::OrderResult& result);

/// The ranked methods or settings with their values, in the published order.
[[nodiscard]] std::string show_order(const studies::OrderResult& result, const char* between);

/// `method against other in setting, against setting`.
[[nodiscard]] std::string describe_figure(const config::PublishedFigure& figure);

}  // namespace tributary::app
