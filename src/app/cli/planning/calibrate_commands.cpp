#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/output_file.h"
#include "app/cli/planning/show_quantities.h"
#include "config/artifact/cluster.h"
#include "core/error.h"
#include "cost/calibrate/calibrate.h"
#include "cost/collective_cost.h"

namespace tributary::app {
namespace {

using cost::PredictionError;
using cost::TrainingRow;
using cost::TrainingTable;

Json json_of(const PredictionError& error) {
  Json json{{"mean", error.mean},
            {"median", error.median},
            {"highest", error.highest},
            {"bias", error.bias}};
  if (error.pairs > 0)
    json.update({{"pairs", error.pairs}, {"order", error.order}, {"regret", error.regret}});
  return json;
}

void print_error(const std::string& what, const PredictionError& error) {
  std::cout << what << ": mean error " << in_percent(error.mean, 2) << ", median "
            << in_percent(error.median, 2) << ", largest " << in_percent(error.highest, 2)
            << ", bias " << in_percent(error.bias, 2);
  if (error.pairs > 0)
    std::cout << "; order right in " << in_percent(error.order, 2) << " of " << error.pairs
              << " pairs, regret " << in_percent(error.regret, 2) << " (largest "
              << in_percent(error.highest_regret, 2) << ") over " << error.groups
              << (error.groups == 1 ? " group" : " groups");
  std::cout << '\n';
}

// ---- calibrate ----

struct CalibrateArguments {
  std::vector<std::string> rows;
  std::optional<std::string> all_reduce;
  std::optional<std::string> base;
  std::string output;
  std::int64_t folds = 5;
};

/// Prints the mean error of all-reduce predictions for group sizes that are not in the fit.
void print_held_out_sweeps(const config::LinkLevel& start,
                           const std::vector<cost::AllReduceSweep>& sweeps) {
  for (std::size_t held = 0; held < sweeps.size() && sweeps.size() > 1; ++held) {
    std::vector<cost::AllReduceSweep> others = sweeps;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(held));
    const config::LinkLevel fitted = cost::fit_all_reduce(start, others);
    double error[2]{};
    int count[2]{};
    for (const config::CollectivePoint& point : sweeps[held].points) {
      const int large = point.bytes.count > (16 << 20) ? 1 : 0;
      const double predicted =
          cost::all_reduce_seconds(fitted, point.ranks, static_cast<double>(point.bytes.count));
      error[large] += std::abs(predicted / seconds_of(point.time) - 1);
      ++count[large];
    }
    std::cout << "all-reduce over " << sweeps[held].points.front().ranks
              << " GPUs, not in the fit: mean error";
    if (count[1] > 0) std::cout << ' ' << in_percent(error[1] / count[1], 2) << " above 16 MiB";
    if (count[0] > 0) std::cout << ' ' << in_percent(error[0] / count[0], 2) << " up to 16 MiB";
    std::cout << '\n';
  }
}

/// Refuses rows that no constants of the cost model explain.
void check_fit(const PredictionError& error, const std::vector<std::string>& files) {
  constexpr double kMaxMedian = 1;
  TRIB_REQUIRE(error.median <= kMaxMedian, .what = "app: no constants explain the rows",
               .where = files.front(),
               .found = str("median error ", in_percent(error.median, 0), " in the fit"),
               .expected = str("at most ", in_percent(kMaxMedian, 0)),
               .fix = "check that times are in milliseconds, and --base");
}

ExitCode run_calibrate(const CalibrateArguments& arguments, const Answer& answer) {
  TRIB_REQUIRE(arguments.folds == 0 || (arguments.folds >= 2 && arguments.folds <= 100),
               .what = "app: value cannot be used", .where = "--folds",
               .found = str(arguments.folds), .expected = "0 (no check) or 2 to 100");
  std::vector<std::string> inputs = arguments.rows;
  inputs.push_back(arguments.base.value_or(""));
  if (arguments.all_reduce && std::filesystem::is_directory(*arguments.all_reduce))
    for (const auto& sweep : std::filesystem::directory_iterator(*arguments.all_reduce))
      inputs.push_back(sweep.path().string());
  check_output(arguments.output, inputs);
  config::Cluster cluster =
      arguments.base ? config::read_cluster(*arguments.base) : cost::data_sheet_cluster();
  std::string origin = str("calibrate from ", cluster.origin, ":");
  if (arguments.all_reduce) {
    const auto sweeps = cost::read_all_reduce_sweeps(*arguments.all_reduce);
    print_held_out_sweeps(cluster.levels.front(), sweeps);
    cluster.levels.front() = cost::fit_all_reduce(cluster.levels.front(), sweeps);
    cluster.levels.front().small_all_reduce = cost::small_points(sweeps);
    origin += str(" all-reduce sweeps of ", sweeps.size(), " group sizes;");
  }
  std::vector<TrainingRow> rows;
  for (const std::string& path : arguments.rows) {
    const TrainingTable table = cost::read_training_rows(path);
    rows.insert(rows.end(), table.rows.begin(), table.rows.end());
    origin += str(' ', table.rows.size(), " rows of ",
                  std::filesystem::path(path).filename().string(), ';');
  }
  if (arguments.folds > 0) cost::check_folds(rows);
  const config::Cluster start = cluster;
  cluster = cost::fit_rows(start, rows);
  std::vector<double> predicted;
  for (const TrainingRow& row : rows) predicted.push_back(cost::step_seconds(cluster, row));
  const PredictionError fitted = cost::judge_predictions(rows, predicted);
  check_fit(fitted, arguments.rows);
  print_error(str(rows.size(), " rows, in the fit"), fitted);
  Json told{{"output", arguments.output}, {"rows", rows.size()}, {"in_fit", json_of(fitted)}};
  if (arguments.folds > 0) {
    const std::vector<double> unseen =
        cost::cross_validate(start, rows, static_cast<int>(arguments.folds), /*seed=*/0);
    const auto part = [&](const std::string& name, const char* key, auto belongs) {
      std::vector<TrainingRow> some;
      std::vector<double> of_some;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!belongs(rows[i])) continue;
        some.push_back(rows[i]);
        of_some.push_back(unseen[i]);
      }
      if (some.empty()) return;
      const PredictionError error = cost::judge_predictions(some, of_some);
      print_error(str(some.size(), " rows ", name, ", not in the fit (", arguments.folds,
                      " folds by model and GPUs)"),
                  error);
      told["not_in_fit"][key] = json_of(error);
    };
    const std::int64_t node = cluster.devices_per_node();
    part("in one node", "one_node", [&](const TrainingRow& row) { return row.devices <= node; });
    part("in several nodes", "several_nodes",
         [&](const TrainingRow& row) { return row.devices > node; });
  }
  origin.pop_back();
  cluster.origin = origin;
  config::check_cluster(cluster, arguments.output);
  write_output(arguments.output, config::write_cluster(cluster));
  answer.give(told);
  return ExitCode::kDone;
}

// ---- predict ----

struct PredictArguments {
  std::string cluster;
  std::string rows;
  std::string output;
};

ExitCode run_predict(const PredictArguments& arguments, const Answer& answer) {
  check_output(arguments.output, {arguments.cluster});  // it may replace the rows themselves
  const config::Cluster cluster = config::read_cluster(arguments.cluster);
  const TrainingTable table = cost::read_training_rows(arguments.rows);
  std::vector<double> all;
  std::vector<TrainingRow> measured;
  std::vector<double> predicted;
  for (const TrainingRow& row : table.rows) {
    all.push_back(cost::step_seconds(cluster, row));
    if (!row.seconds) continue;
    measured.push_back(row);
    predicted.push_back(all.back());
  }
  write_output(arguments.output, cost::write_predictions(table, all));
  std::cout << table.rows.size() << " rows predicted\n";
  Json told{{"output", arguments.output}, {"rows", table.rows.size()}};
  if (!measured.empty()) {
    const PredictionError error = cost::judge_predictions(measured, predicted);
    print_error(str(measured.size(), " rows with a time"), error);
    told["rows_with_a_time"] = measured.size();
    told["error"] = json_of(error);
  }
  answer.give(told);
  return ExitCode::kDone;
}

}  // namespace

Run declare_calibrate(Verb& verb) {
  const auto arguments = std::make_shared<CalibrateArguments>();
  verb.option("--rows", arguments->rows,
              "measured step times (docs/formats/training_rows.md); may be given several times");
  verb.option("--allreduce", arguments->all_reduce,
              "directory of all-reduce sweeps, files *_gpuN.csv");
  verb.option("--base", arguments->base,
              "cluster file whose other constants are taken over; default: A100 data sheets");
  verb.required("-o,--output", arguments->output, "cluster file to write");
  verb.option("--folds", arguments->folds,
              "folds of the check on rows that a fit has not seen, by model and GPUs; 0: no check");
  verb.example(
      "tributary calibrate --rows single.csv --rows multi.csv --allreduce sweeps -o a100.yaml");
  return [arguments, answer = verb.answer()] {
    TRIB_REQUIRE(!arguments->rows.empty(), .what = "app: no rows to fit", .where = "--rows",
                 .expected = "one file at least");
    return run_calibrate(*arguments, answer);
  };
}

Run declare_predict(Verb& verb) {
  const auto arguments = std::make_shared<PredictArguments>();
  verb.required("--cluster", arguments->cluster, "cluster file (docs/formats/cluster.md)");
  verb.required("--rows", arguments->rows,
                "configurations (docs/formats/training_rows.md); the time column may be absent");
  verb.required("-o,--output", arguments->output,
                "CSV to write: the rows with a column predicted_ms");
  verb.example("tributary predict --cluster a100.yaml --rows multi.csv -o predicted.csv");
  return [arguments, answer = verb.answer()] { return run_predict(*arguments, answer); };
}

}  // namespace tributary::app
