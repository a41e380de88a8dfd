#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "cost/calibrate/calibrate.h"
#include "cost/calibrate/least_squares.h"

namespace tributary::cost {
namespace {

using config::Cluster;
using config::DeviceModel;
using config::LinkLevel;

/// A constant that rows of step times can determine. Its start is the prior belief.
struct RowConstant {
  double& (*field)(Cluster&);
  FitParameter search;
};

/// docs/guides/cost_model.md says where the starts of shares and host times come from.
const std::vector<RowConstant>& row_constants() {
  static const std::vector<RowConstant> constants{
      {[](Cluster& c) -> double& { return c.device.matrix_share; }, {0.75, 0.2, 0.05, 1}},
      {[](Cluster& c) -> double& { return c.device.matrix_ramp_flops; }, {1.5e9, 0.7, 1e6, 1e12}},
      {[](Cluster& c) -> double& { return c.device.misaligned_share; }, {0.4, 0.5, 0.02, 1}},
      {[](Cluster& c) -> double& { return c.device.memory_share; }, {0.7, 0.2, 0.05, 1}},
      {[](Cluster& c) -> double& { return c.device.launch_s; }, {40e-6, 0.5, 1e-7, 1e-2}},
      {[](Cluster& c) -> double& { return c.device.launch_blend; }, {2, 0.3, 1, 16}},
      {[](Cluster& c) -> double& { return c.device.microbatch_s; }, {2e-3, 0.5, 1e-6, 1}},
      {[](Cluster& c) -> double& { return c.device.logit_bytes; }, {30, 0.5, 1, 1000}},
      {[](Cluster& c) -> double& { return c.exposed_message_share; }, {0.5, 0.5, 0.001, 1}},
      {[](Cluster& c) -> double& { return c.levels.front().bytes_per_s; }, {18e9, 0.5, 1e8, 1e12}},
      {[](Cluster& c) -> double& { return c.levels.back().bytes_per_s; }, {12e9, 0.5, 1e8, 1e12}},
      {[](Cluster& c) -> double& { return c.levels.back().hop_s; }, {5e-6, 0.7, 1e-8, 1e-2}},
  };
  return constants;
}

/// Rows within a node and rows across nodes get the same total weight.
std::vector<double> weights_of(const Cluster& cluster, std::span<const TrainingRow> rows) {
  const auto within = [&](const TrainingRow& row) {
    return row.devices <= cluster.devices_per_node();
  };
  const auto inside = static_cast<double>(std::count_if(rows.begin(), rows.end(), within));
  const double outside = static_cast<double>(rows.size()) - inside;
  const double half = static_cast<double>(rows.size()) / (inside > 0 && outside > 0 ? 2 : 1);
  std::vector<double> weights;
  for (const TrainingRow& row : rows)
    weights.push_back(std::min(std::sqrt(half / (within(row) ? inside : outside)), 3.0));
  return weights;
}

}  // namespace

Cluster fit_rows(const Cluster& start, std::span<const TrainingRow> rows) {
  TRIB_REQUIRE(!rows.empty(), .what = "cost: no row to fit",
               .expected = "one measured row at least", .fix = "add rows");
  // Recompute follows from memory, which the fit does not change, so it is resolved once.
  std::vector<TrainingRow> resolved(rows.begin(), rows.end());
  for (TrainingRow& row : resolved) {
    TRIB_REQUIRE(row.seconds.has_value(), .what = "cost: row without a measured time",
                 .where = row.place(), .expected = "iteration time (ms) in every row",
                 .fix = "add its time, or leave out the row");
    row.recompute = recompute_of(start, row);
  }
  std::vector<FitParameter> parameters;
  for (const RowConstant& constant : row_constants()) parameters.push_back(constant.search);
  const auto with = [&](std::span<const double> values) {
    Cluster cluster = start;
    for (std::size_t i = 0; i < values.size(); ++i) row_constants()[i].field(cluster) = values[i];
    return cluster;
  };
  const std::vector<double> weights = weights_of(start, rows);
  const Fit fit = fit_least_squares(
      parameters, rows.size(),
      [&](std::span<const double> values, std::span<double> out) {
        const Cluster cluster = with(values);
        for (std::size_t i = 0; i < rows.size(); ++i)
          out[i] = weights[i] * std::log(step_seconds(cluster, resolved[i]) / *resolved[i].seconds);
      },
      {.iterations = 40, .robust_scale = 0.1, .prior_weight = 0.1});
  return with(fit.values);
}

Cluster data_sheet_cluster() {
  Cluster cluster{.name = "a100", .origin = "data sheets", .devices = 1 << 20};
  cluster.device = {.name = "A100-80 SXM",
                    .matrix_flops_per_s = 312e12,
                    .memory_bytes_per_s = 2.04e12,
                    .memory = {std::int64_t{80} << 30},
                    .reserve = {std::int64_t{4} << 30}};
  cluster.levels.push_back({.name = "nvlink",
                            .ranks = 8,
                            .bytes_per_s = 18e9,
                            .message_start_s = 26e-6,
                            .start_s = 50e-6,
                            .hop_s = 3.4e-6,
                            .seconds_per_byte = 1 / 230e9});
  cluster.levels.push_back({.name = "infiniband",
                            .ranks = 1 << 20,
                            .bytes_per_s = 12e9,
                            .message_start_s = 10e-6,
                            .start_s = 20e-6,
                            .hop_s = 5e-6});
  return cluster;
}

}  // namespace tributary::cost
