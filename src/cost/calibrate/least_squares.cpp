#include "cost/calibrate/least_squares.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tributary::cost {
namespace {

/// Solves a positive definite system in place by Cholesky; false when it is not positive definite.
bool solve(std::vector<double>& matrix, std::vector<double>& right) {
  const std::size_t n = right.size();
  for (std::size_t column = 0; column < n; ++column) {
    for (std::size_t row = column; row < n; ++row) {
      double sum = matrix[row * n + column];
      for (std::size_t k = 0; k < column; ++k) sum -= matrix[row * n + k] * matrix[column * n + k];
      if (row == column) {
        if (!(sum > 0)) return false;
        matrix[row * n + row] = std::sqrt(sum);
      } else {
        matrix[row * n + column] = sum / matrix[column * n + column];
      }
    }
  }
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t k = 0; k < row; ++k) right[row] -= matrix[row * n + k] * right[k];
    right[row] /= matrix[row * n + row];
  }
  for (std::size_t row = n; row-- > 0;) {
    for (std::size_t k = row + 1; k < n; ++k) right[row] -= matrix[k * n + row] * right[k];
    right[row] /= matrix[row * n + row];
  }
  return true;
}

class Solver {
 public:
  Solver(std::span<const FitParameter> parameters, std::size_t count,
         const std::function<void(std::span<const double>, std::span<double>)>& residuals,
         const FitBudget& budget)
      : parameters_(parameters), count_(count), residuals_(residuals), budget_(budget) {
    for (const FitParameter& parameter : parameters) point_.push_back(std::log(parameter.start));
  }

  Fit run() {
    std::vector<double> now = evaluate(point_);
    double cost = cost_of(now, point_);
    TRIB_REQUIRE(std::isfinite(cost), .what = "cost: fit begins with a residual that is no number");
    double damping = 1e-2;
    Fit fit;
    for (; fit.iterations < budget_.iterations && damping < 1e8; ++fit.iterations) {
      linearise(now);
      bool better = false;
      while (!better && damping < 1e8) {
        const std::vector<double> next = step(damping);
        const std::vector<double> there = evaluate(next);
        const double next_cost = cost_of(there, next);
        better = std::isfinite(next_cost) && next_cost < cost;
        if (!better) {
          damping *= 4;
          continue;
        }
        const bool done = cost - next_cost < 1e-9 * cost;
        point_ = next;
        now = there;
        cost = next_cost;
        damping = std::max(damping / 5, 1e-9);
        if (done) damping = 1e9;
      }
    }
    fit.values = values_of(point_);
    fit.cost = cost;
    return fit;
  }

 private:
  [[nodiscard]] std::vector<double> values_of(const std::vector<double>& point) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < point.size(); ++i)
      values.push_back(std::clamp(std::exp(point[i]), parameters_[i].min, parameters_[i].max));
    return values;
  }
  [[nodiscard]] std::vector<double> evaluate(const std::vector<double>& point) const {
    std::vector<double> out(count_);
    residuals_(values_of(point), out);
    return out;
  }
  [[nodiscard]] double pull(const std::vector<double>& point, std::size_t i) const {
    return budget_.prior_weight * (point[i] - std::log(parameters_[i].start)) /
           parameters_[i].spread;
  }
  [[nodiscard]] double cost_of(const std::vector<double>& residuals,
                               const std::vector<double>& point) const {
    const double scale = budget_.robust_scale;
    double cost = 0;
    for (const double residual : residuals)
      cost += 2 * scale * scale * (std::sqrt(1 + residual * residual / (scale * scale)) - 1);
    for (std::size_t i = 0; i < point.size(); ++i) cost += pull(point, i) * pull(point, i);
    return cost;
  }

  /// Normal equations of the weighted residuals and of the pull towards the start.
  void linearise(const std::vector<double>& now) {
    constexpr double kStep = 1e-4;
    const std::size_t n = point_.size();
    std::vector<std::vector<double>> slopes(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> moved = point_;
      moved[i] += kStep;
      slopes[i] = evaluate(moved);
      for (std::size_t k = 0; k < count_; ++k) slopes[i][k] = (slopes[i][k] - now[k]) / kStep;
    }
    std::vector<double> weights(count_);
    for (std::size_t k = 0; k < count_; ++k)
      weights[k] =
          1 / std::sqrt(1 + now[k] * now[k] / (budget_.robust_scale * budget_.robust_scale));
    normal_.assign(n * n, 0);
    downhill_.assign(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < count_; ++k) sum += weights[k] * slopes[i][k] * slopes[j][k];
        normal_[i * n + j] = normal_[j * n + i] = sum;
      }
      for (std::size_t k = 0; k < count_; ++k) downhill_[i] -= weights[k] * slopes[i][k] * now[k];
      const double own = budget_.prior_weight / parameters_[i].spread;
      normal_[i * n + i] += own * own;
      downhill_[i] -= own * pull(point_, i);
    }
  }

  [[nodiscard]] std::vector<double> step(double damping) const {
    const std::size_t n = point_.size();
    std::vector<double> matrix = normal_;
    std::vector<double> move = downhill_;
    for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] += damping * (matrix[i * n + i] + 1e-12);
    if (!solve(matrix, move)) return point_;
    std::vector<double> next = point_;
    for (std::size_t i = 0; i < n; ++i)
      next[i] = std::clamp(next[i] + std::clamp(move[i], -1.0, 1.0), std::log(parameters_[i].min),
                           std::log(parameters_[i].max));
    return next;
  }

  std::span<const FitParameter> parameters_;
  std::size_t count_;
  const std::function<void(std::span<const double>, std::span<double>)>& residuals_;
  FitBudget budget_;
  std::vector<double> point_;  // [parameters] logarithms
  std::vector<double> normal_;
  std::vector<double> downhill_;
};

}  // namespace

Fit fit_least_squares(
    std::span<const FitParameter> parameters, std::size_t count,
    const std::function<void(std::span<const double>, std::span<double>)>& residuals,
    FitBudget budget) {
  for (const FitParameter& parameter : parameters)
    TRIB_CHECK(parameter.min > 0 && parameter.start >= parameter.min &&
                   parameter.start <= parameter.max && parameter.spread > 0,
               .what = "cost: parameter of a fit starts outside its range",
               .found = str(parameter.start));
  return Solver(parameters, count, residuals, budget).run();
}

}  // namespace tributary::cost
