#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/artifact/cluster.h"
#include "cost/calibrate/training_row.h"

namespace tributary::cost {

/// Measured all-reduces of groups of one size inside a node.
struct AllReduceSweep {
  std::string source = {};
  std::vector<config::CollectivePoint> points = {};  // ascending by bytes
};

/// Reads `*_gpuN.csv` of a directory: a header, then lines of bytes, count, type, time in ns, ...
///
/// errors: Fault::kInput naming file and line; a directory without such a file, or with
///         two of one N
[[nodiscard]] std::vector<AllReduceSweep> read_all_reduce_sweeps(const std::string& directory);
[[nodiscard]] AllReduceSweep parse_all_reduce_sweep(std::string_view text,
                                                    const std::string& source, std::int64_t ranks);

/// Fits the all-reduce constants of a level to sweeps; every octave of sizes has the same weight.
///
/// errors: Fault::kInput naming the file when it has more ranks than the level joins
[[nodiscard]] config::LinkLevel fit_all_reduce(const config::LinkLevel& start,
                                               std::span<const AllReduceSweep> sweeps);

/// Points of the sweeps up to 16 MiB, thinned to powers of two and the midpoints between them.
/// Small messages in groups of a measured size are looked up in these.
[[nodiscard]] std::vector<config::CollectivePoint> small_points(
    std::span<const AllReduceSweep> sweeps);

/// Fits the constants of device and links to measured steps; the residual is log(predicted /
/// measured). Constants that the rows do not determine keep their start.
///
/// errors: Fault::kInput when a row has no time or does not fit the cluster
[[nodiscard]] config::Cluster fit_rows(const config::Cluster& start,
                                       std::span<const TrainingRow> rows);

/// A100-80 nodes as their data sheets have them, joined to any number.
[[nodiscard]] config::Cluster data_sheet_cluster();

/// How close predictions are to measurements.
struct PredictionError {
  double mean = 0;  // of |predicted / measured - 1|
  double median = 0;
  double highest = 0;
  double bias = 0;   // mean of predicted / measured - 1
  double order = 0;  // fraction of comparable pairs predicted in the right order
  std::int64_t pairs = 0;
  double regret = 0;  // mean over groups of pairs: measured time of the row predicted fastest
                      // over the min measured time, minus 1
  double highest_regret = 0;
  std::int64_t groups = 0;
};

/// Pairs are rows of one model on the same number of devices, with the same batch and sequence,
/// whose measured times differ. Where several rows are predicted equally fast, a group takes the
/// one measured slowest.
///
/// shape:  predicted [rows] seconds
/// source: docs/theory/planning.md, "Errors of predictions"
[[nodiscard]] PredictionError judge_predictions(std::span<const TrainingRow> rows,
                                                std::span<const double> predicted);

/// Refuses rows that leave nothing to fit when a fold is held out.
///
/// errors: Fault::kInput when all rows are of one model on one number of devices
void check_folds(std::span<const TrainingRow> rows);

/// Predicts every row by constants fitted to the rows of the other folds. All rows of one model
/// (width, layers) on one number of devices are in the same fold.
///
/// shape:  returns [rows] seconds
/// errors: Fault::kInput as check_folds and fit_rows
[[nodiscard]] std::vector<double> cross_validate(const config::Cluster& start,
                                                 std::span<const TrainingRow> rows, int folds,
                                                 std::uint64_t seed);

}  // namespace tributary::cost
