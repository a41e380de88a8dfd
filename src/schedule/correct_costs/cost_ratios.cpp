#include "schedule/correct_costs/cost_ratios.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tributary::schedule {
namespace {

/// Solves `matrix` x = `x` in place: symmetric and positive definite, its lower half [rows, rows].
void solve_in_place(std::vector<double>& matrix, std::vector<double>& x) {
  const std::size_t rows = x.size();
  const auto at = [&](std::size_t row, std::size_t column) -> double& {
    return matrix[row * rows + column];
  };
  for (std::size_t column = 0; column < rows; ++column) {  // Cholesky
    for (std::size_t row = column; row < rows; ++row) {
      double sum = at(row, column);
      for (std::size_t k = 0; k < column; ++k) sum -= at(row, k) * at(column, k);
      at(row, column) = row == column ? std::sqrt(sum) : sum / at(column, column);
    }
  }
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < row; ++k) x[row] -= at(row, k) * x[k];
    x[row] /= at(row, row);
  }
  for (std::size_t row = rows; row-- > 0;) {
    for (std::size_t k = row + 1; k < rows; ++k) x[row] -= at(k, row) * x[k];
    x[row] /= at(row, row);
  }
}

}  // namespace

std::int32_t quarter_octave(std::int64_t count) {
  if (count < 1) return 0;
  const int octave = 63 - std::countl_zero(static_cast<std::uint64_t>(count));
  const double mantissa = std::ldexp(static_cast<double>(count), -octave);  // in [1, 2)
  constexpr double kQuarters[] = {1.189207115002721, 1.4142135623730951, 1.681792830507429};
  int quarter = 0;
  for (const double quarter_begin : kQuarters) quarter += mantissa >= quarter_begin ? 1 : 0;
  return 4 * octave + quarter;
}

void RatioEquations::forget(double kept) {
  for (auto& [keys, product] : products_) product *= kept;
  for (auto& [key, measured] : measured_) measured *= kept;
}

void RatioEquations::add(const MeasuredBucket& bucket, double lowest, double highest) {
  double predicted = 0;
  for (const PredictedShare& share : bucket.shares)
    predicted += static_cast<double>(share.time.count);
  if (predicted == 0) return;
  const double ratio =
      std::clamp(static_cast<double>(bucket.time.count) / predicted, lowest, highest);
  for (const PredictedShare& one : bucket.shares) {
    if (one.time.count == 0) continue;
    const double share = static_cast<double>(one.time.count) / predicted;
    measured_[one.key] += share * ratio;
    for (const PredictedShare& other : bucket.shares)
      if (other.time.count > 0 && one.key <= other.key)
        products_[{one.key, other.key}] +=
            share * static_cast<double>(other.time.count) / predicted;
  }
}

std::map<CostKey, double> RatioEquations::solve(double weight_of_one) const {
  const std::size_t keys = measured_.size();
  std::map<CostKey, std::size_t> place;
  std::vector<double> ratios;
  for (const auto& [key, measured] : measured_) {
    place.emplace(key, place.size());
    ratios.push_back(measured + weight_of_one);
  }
  std::vector<double> matrix(keys * keys);
  for (const auto& [pair, product] : products_)
    matrix[place.at(pair.second) * keys + place.at(pair.first)] = product;
  for (std::size_t key = 0; key < keys; ++key) matrix[key * keys + key] += weight_of_one;
  solve_in_place(matrix, ratios);
  std::map<CostKey, double> solved;
  for (const auto& [key, row] : place) solved.emplace(key, ratios[row]);
  return solved;
}

RatioEquations RatioEquations::from(Products products, std::map<CostKey, double> measured) {
  RatioEquations equations;
  equations.products_ = std::move(products);
  equations.measured_ = std::move(measured);
  return equations;
}

}  // namespace tributary::schedule
