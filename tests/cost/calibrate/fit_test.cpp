#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "cost/calibrate/calibrate.h"
#include "cost/calibrate/least_squares.h"
#include "cost/collective_cost.h"

namespace tributary::cost {
namespace {

TEST(FitLeastSquares, FindsTheCurveThroughNoiseAndOutliers) {
  RandomStream random(1, "fit");
  std::vector<double> x;
  std::vector<double> y;
  for (int i = 0; i < 200; ++i) {
    x.push_back(0.1 * i);
    y.push_back((3 + 0.5 * x.back()) * (1 + 0.01 * random.normal()) * (i % 20 == 7 ? 3 : 1));
  }
  const std::vector<FitParameter> parameters{{1, 3, 1e-3, 1e3}, {1, 3, 1e-3, 1e3}};
  const auto residuals = [&](std::span<const double> values, std::span<double> out) {
    for (std::size_t i = 0; i < x.size(); ++i)
      out[i] = std::log((values[0] + values[1] * x[i]) / y[i]);
  };
  const Fit fit = fit_least_squares(parameters, x.size(), residuals, {.robust_scale = 0.02});
  EXPECT_NEAR(fit.values[0], 3, 0.05);
  EXPECT_NEAR(fit.values[1], 0.5, 0.01);
  EXPECT_EQ(fit.values,
            fit_least_squares(parameters, x.size(), residuals, {.robust_scale = 0.02}).values);
}

TEST(FitLeastSquares, LeavesWhatNothingTellsWhereItStarted) {
  const std::vector<FitParameter> parameters{{2, 1, 1, 10}, {5, 1, 1, 10}};
  const Fit fit =
      fit_least_squares(parameters, 1, [](std::span<const double> values, std::span<double> out) {
        out[0] = 10 * std::log(values[0] / 4);
      });
  EXPECT_NEAR(fit.values[0], 4, 0.01);
  EXPECT_NEAR(fit.values[1], 5, 1e-9);
}

TEST(FitLeastSquares, StaysInItsRange) {
  const Fit fit = fit_least_squares(std::vector<FitParameter>{{2, 1, 1, 3}}, 1,
                                    [](std::span<const double> values, std::span<double> out) {
                                      out[0] = std::log(values[0] / 100);
                                    });
  EXPECT_NEAR(fit.values[0], 3, 1e-9);
}

TEST(FitLeastSquares, RefusesResidualsThatAreNoNumbers) {
  EXPECT_THAT(
      [] {
        (void)fit_least_squares(
            std::vector<FitParameter>{{2, 1, 1, 3}}, 1,
            [](std::span<const double>, std::span<double> out) { out[0] = std::nan(""); });
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("no number")));
}

TEST(FitAllReduce, FindsTheConstantsThatMadeTheSweeps) {
  config::LinkLevel truth = data_sheet_cluster().levels[0];
  truth.start_s = 45e-6;
  truth.low_latency_start_s = 28e-6;
  truth.low_latency_hop_s = 2e-6;
  truth.low_latency_slowdown = 1.15;
  truth.seconds_per_byte = 4.3e-12;
  truth.seconds_per_byte_pair = 1e-12;
  std::vector<AllReduceSweep> sweeps;
  for (const std::int64_t ranks : {2, 4}) {
    AllReduceSweep sweep;
    for (std::int64_t mega = 1; mega <= 512; mega = mega < 8 ? mega + 1 : mega * 3 / 2) {
      const double seconds = all_reduce_seconds(truth, ranks, static_cast<double>(mega << 20));
      sweep.points.push_back({ranks, {mega << 20}, {std::llround(1e9 * seconds)}});
    }
    sweeps.push_back(sweep);
  }
  const config::LinkLevel fitted = fit_all_reduce(data_sheet_cluster().levels[0], sweeps);
  for (const std::int64_t mega : {1, 8, 64, 1024}) {
    const auto bytes = static_cast<double>(mega << 20);
    EXPECT_NEAR(all_reduce_seconds(fitted, 8, bytes) / all_reduce_seconds(truth, 8, bytes), 1, 0.03)
        << mega << " MiB over a group that was not in the fit";
  }
}

std::vector<TrainingRow> make_rows(const config::Cluster& cluster) {
  std::vector<TrainingRow> rows;
  for (const std::int64_t width : {1024, 2048, 4096}) {
    for (const std::int64_t layers : {12, 24}) {
      for (const std::int64_t tp : {1, 2, 4}) {
        for (const std::int64_t pp : {1, 2}) {
          for (const std::int64_t micro : {1, 4}) {
            TrainingRow row{.devices = tp * pp * 2,
                            .global_batch = 64,
                            .micro_batch = micro,
                            .width = width,
                            .heads = 16,
                            .layers = layers,
                            .sequence = 1024,
                            .tp = tp,
                            .dp = 2,
                            .pp = pp};
            row.seconds = step_seconds(cluster, row);
            rows.push_back(row);
          }
        }
      }
    }
  }
  return rows;
}

TEST(FitRows, PredictsModelsThatItHasNotSeen) {
  config::Cluster truth = data_sheet_cluster();
  truth.device.matrix_share = 0.6;
  truth.device.memory_share = 0.5;
  truth.device.launch_s = 30e-6;
  truth.device.microbatch_s = 3e-3;
  const std::vector<TrainingRow> rows = make_rows(truth);
  const std::vector<double> predicted = cross_validate(data_sheet_cluster(), rows, 4, 0);
  const PredictionError error = judge_predictions(rows, predicted);
  EXPECT_LT(error.mean, 0.01);
  EXPECT_GT(error.order, 0.95);
}

TEST(FitRows, ForgivesAFewWildRows) {
  config::Cluster truth = data_sheet_cluster();
  truth.device.matrix_share = 0.6;
  std::vector<TrainingRow> rows = make_rows(truth);
  const std::vector<TrainingRow> clean = rows;
  for (std::size_t i = 5; i < rows.size(); i += 12) *rows[i].seconds *= 1.8;
  const config::Cluster fitted = fit_rows(data_sheet_cluster(), rows);
  std::vector<double> predicted;
  for (const TrainingRow& row : clean) predicted.push_back(step_seconds(fitted, row));
  EXPECT_LT(judge_predictions(clean, predicted).mean, 0.03);
}

TEST(FitRows, NamesARowWithoutATime) {
  TrainingRow row = make_rows(data_sheet_cluster()).front();
  row.seconds.reset();
  row.line = 7;
  EXPECT_THAT([&] { (void)fit_rows(data_sheet_cluster(), std::vector{row}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("line 7")));
}

TEST(FitRows, SaysThatOneConfigurationCannotCheckAFit) {
  std::vector<TrainingRow> rows{make_rows(data_sheet_cluster()).front()};
  rows.push_back(rows.front());
  rows.back().micro_batch = 2;  // of the same model on as many devices
  EXPECT_THAT([&] { (void)cross_validate(data_sheet_cluster(), rows, 5, 0); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("--folds 0")));
  rows.push_back(rows.front());
  rows.back().layers *= 2;
  rows.back().seconds = step_seconds(data_sheet_cluster(), rows.back());
  EXPECT_EQ(cross_validate(data_sheet_cluster(), rows, 5, 0).size(), 3u);
}

TEST(JudgePredictions, CountsPairsOfOneModelOnEqualDevices) {
  std::vector<TrainingRow> rows(3);
  rows[0].seconds = 1;
  rows[1].seconds = 2;
  rows[2].seconds = 3;
  rows[2].width = 7;  // another model
  const PredictionError error = judge_predictions(rows, std::vector<double>{1.1, 1.0, 3.3});
  EXPECT_EQ(error.pairs, 1);
  EXPECT_EQ(error.order, 0);
  EXPECT_NEAR(error.mean, (0.1 + 0.5 + 0.1) / 3, 1e-12);
  EXPECT_NEAR(error.highest, 0.5, 1e-12);
}

TEST(JudgePredictions, SaysWhatTheRowPredictedFastestCosts) {
  // Groups by width: the choice is 30 % above the best, the best, one of two, a row alone, and
  // rows of which none was measured to be faster.
  struct Case {
    std::int64_t width;
    double measured;
    double predicted;
  };
  const std::vector<Case> cases{{1, 13, 1}, {1, 10, 2}, {1, 20, 3}, {2, 5, 4}, {2, 6, 5},
                                {3, 4, 7},  {3, 5, 7},  {4, 9, 1},  {5, 8, 3}, {5, 8, 2}};
  std::vector<TrainingRow> rows;
  std::vector<double> predicted;
  for (const Case& each : cases) {
    rows.push_back({.width = each.width, .seconds = each.measured});
    predicted.push_back(each.predicted);
  }
  const PredictionError error = judge_predictions(rows, predicted);
  EXPECT_EQ(error.groups, 3);
  EXPECT_NEAR(error.regret, (0.3 + 0 + 0.25) / 3, 1e-12);
  EXPECT_NEAR(error.highest_regret, 0.3, 1e-12);
}

TEST(JudgePredictions, CountsPairsAsLookingAtEachDoes) {
  RandomStream random(3, "pairs");
  for (int trial = 0; trial < 200; ++trial) {
    const auto few = static_cast<std::int64_t>(1 + random.below(12));  // many ties, or few
    std::vector<TrainingRow> rows(1 + random.below(40));
    std::vector<double> predicted;
    for (TrainingRow& row : rows) {
      row.width = static_cast<std::int64_t>(1 + random.below(3));
      row.global_batch = static_cast<std::int64_t>(1 + random.below(2));
      row.seconds = 1 + static_cast<double>(random.below(few));
      predicted.push_back(1 + static_cast<double>(random.below(few)));
    }
    std::int64_t pairs = 0;
    std::int64_t right = 0;
    for (std::size_t a = 0; a < rows.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const double measured = *rows[a].seconds - *rows[b].seconds;
        if (rows[a].width != rows[b].width || rows[a].global_batch != rows[b].global_batch)
          continue;
        pairs += measured != 0 ? 1 : 0;
        right += measured * (predicted[a] - predicted[b]) > 0 ? 1 : 0;
      }
    }
    const PredictionError error = judge_predictions(rows, predicted);
    EXPECT_EQ(error.pairs, pairs);
    EXPECT_EQ(error.order,
              pairs == 0 ? 0 : static_cast<double>(right) / static_cast<double>(pairs));
  }
}

}  // namespace
}  // namespace tributary::cost
