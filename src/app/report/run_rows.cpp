#include "app/report/run_rows.h"

#include <algorithm>
#include <limits>

#include "app/report/compare_page.h"
#include "app/report/html.h"
#include "core/text.h"

namespace tributary::app {
namespace {

using studies::Comparison;
using studies::MethodResult;
using studies::MethodRun;
using studies::SettingResult;

constexpr const char* kNone = "–";

std::string show_rounds(const MethodRun& run) {
  if (run.rounds_s.empty()) return kNone;
  const auto [min, max] = std::ranges::minmax(run.rounds_s);
  return str(show_time(min), " / ", show_time(*run.median_s()), " / ", show_time(max));
}

/// How much faster a step is than that of another method; a dash where either is not known.
std::string show_ratio(double step, double of_other) {
  return step > 0 && of_other > 0 ? show_figure(config::FigureQuantity::kSpeedup, of_other / step)
                                  : kNone;
}

std::string published_ratio(const Comparison& comparison, const SettingResult& setting,
                            const std::string& method) {
  for (const studies::FigureResult& result : comparison.figures) {
    const config::PublishedFigure& figure = result.figure;
    if (figure.quantity == config::FigureQuantity::kSpeedup && figure.setting == setting.name &&
        figure.method == method && figure.against == comparison.against &&
        figure.against_setting.empty())
      return show_published(figure);
  }
  return kNone;
}

std::string remark_of(const MethodResult& method) {
  const MethodRun& run = *method.run;
  if (!run.not_run.empty()) return "not run: " + run.not_run;
  std::string text = method.plan;
  if (!run.same_as.empty()) text += str("; the plan of ", run.same_as, ", which ran for both");
  if (!run.failure.empty()) text += str("; failed: ", run.failure);
  return text;
}

double median_of(const MethodResult& method) { return method.run->median_s().value_or(0); }

}  // namespace

bool has_run(const Comparison& comparison) {
  return std::ranges::any_of(comparison.settings,
                             [](const SettingResult& each) { return each.run.has_value(); });
}

std::vector<MethodResult> fastest_measured_first(const SettingResult& setting) {
  std::vector<MethodResult> methods = setting.methods;
  std::ranges::stable_sort(methods, {}, [](const MethodResult& method) {
    return method.run->median_s().value_or(std::numeric_limits<double>::infinity());
  });
  return methods;
}

std::vector<RunRow> run_rows(const Comparison& comparison, const SettingResult& setting) {
  const MethodResult* base = setting.find(comparison.against);
  std::vector<RunRow> rows;
  for (const MethodResult& method : fastest_measured_first(setting)) {
    const double measured = median_of(method);
    RunRow& row = rows.emplace_back(RunRow{.method = method.method});
    row.simulated = method.step_s > 0 ? show_time(method.step_s) : kNone;
    row.measured = show_rounds(*method.run);
    row.error =
        method.step_s > 0 && measured > 0 ? show_percent(method.step_s / measured - 1) : kNone;
    row.simulated_ratio = base != nullptr ? show_ratio(method.step_s, base->step_s) : kNone;
    row.measured_ratio = base != nullptr ? show_ratio(measured, median_of(*base)) : kNone;
    row.published_ratio = published_ratio(comparison, setting, method.method);
    row.remark = remark_of(method);
  }
  return rows;
}

std::string describe_run(const SettingResult& setting) {
  const studies::SettingRun& run = *setting.run;
  return str(run.rounds, run.rounds == 1 ? " round of " : " rounds of ", run.steps, " steps, ",
             run.warm_up_steps, " to warm up, on ", setting.devices,
             setting.devices == 1 ? " process of " : " processes of ", setting.cluster);
}

std::string describe_pairs(const studies::PairOrder& order) {
  if (order.pairs == 0) return "Fewer than two plans ran, so there is no order to judge.";
  std::string text =
      str("The simulator has ", order.right, " of ", order.pairs,
          order.pairs == 1 ? " pair" : " pairs", " of plans in the order that was measured.");
  if (order.apart < order.pairs)
    text += str(" The rounds of ", order.apart, " pairs do not overlap; of these it has ",
                order.apart_right, " in order.");
  return text;
}

std::string describe_losses(const SettingResult& setting) {
  double largest = 0;
  for (const MethodResult& method : setting.methods)
    largest = std::max(largest, method.run->loss_difference);
  return str("All trained on the same samples; their losses differ by at most ",
             show_number(largest), " of the first one's.");
}

}  // namespace tributary::app
