#include "app/cli/planning/show_runs.h"

#include <algorithm>
#include <array>
#include <iostream>

#include "app/cli/planning/show_quantities.h"
#include "app/report/run_rows.h"

namespace tributary::app {
namespace {

constexpr std::size_t kIndent = 6;

using Column = std::string RunRow::*;

constexpr std::array<Column, 3> kSteps = {&RunRow::simulated, &RunRow::measured, &RunRow::error};
constexpr std::array<Column, 3> kRatios = {&RunRow::simulated_ratio, &RunRow::measured_ratio,
                                           &RunRow::published_ratio};

}  // namespace

void print_measured(const studies::Comparison& comparison, const studies::SettingResult& setting) {
  std::cout << "  " << describe_run(setting) << '\n';
  std::vector<RunRow> rows{{.method = "method",
                            .simulated = "simulated",
                            .measured = "measured: min / median / max",
                            .error = "error",
                            .simulated_ratio = "simulated",
                            .measured_ratio = "measured",
                            .published_ratio = "published",
                            .remark = {}}};
  const std::vector<RunRow> of_methods = run_rows(comparison, setting);
  rows.insert(rows.end(), of_methods.begin(), of_methods.end());
  std::vector<Column> columns{&RunRow::method};
  columns.insert(columns.end(), kSteps.begin(), kSteps.end());
  const bool has_base = setting.find(comparison.against) != nullptr;
  if (has_base) {
    columns.insert(columns.end(), kRatios.begin(), kRatios.end());
    std::cout << "  the last three columns: speed over " << comparison.against << '\n';
  }
  for (const RunRow& row : rows) {
    std::cout << "  ";
    for (const Column column : columns) {
      std::size_t width = 0;
      for (const RunRow& each : rows) width = std::max(width, characters_of(each.*column));
      std::cout << padded(row.*column, width, /*to_the_right=*/column != &RunRow::method) << "  ";
    }
    std::cout << '\n';
    if (!row.remark.empty())
      std::cout << std::string(kIndent, ' ') << wrapped(row.remark, kIndent) << '\n';
  }
  std::cout << "  " << describe_pairs(setting.run->order) << "\n  " << describe_losses(setting)
            << '\n';
  if (!setting.run->note.empty()) std::cout << "  profile: " << setting.run->note << '\n';
}

}  // namespace tributary::app
