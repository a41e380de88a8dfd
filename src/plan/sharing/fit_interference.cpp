#include "plan/sharing/fit_interference.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"

namespace tributary::plan {
namespace {

using Factors = std::array<double, 3>;

void check_points(std::span<const CoLocation> points) {
  TRIB_REQUIRE(points.size() >= 6, .what = "plan: too few points for a fit",
               .found = str(points.size()), .expected = "at least 6");
  for (std::size_t index = 0; index < points.size(); ++index) {
    const CoLocation& point = points[index];
    const std::string where = str("point ", index);
    TRIB_REQUIRE(point.alone.count >= 1 && point.together.count >= 1,
                 .what = "plan: value cannot be used", .where = where,
                 .found = str(point.alone, " alone, ", point.together, " together"),
                 .expected = "times above 0");
    TRIB_REQUIRE(point.bandwidth.size() >= 2, .what = "plan: point without a neighbour",
                 .where = where, .found = str(point.bandwidth.size(), " modules"));
    for (const double share : point.bandwidth) {
      TRIB_REQUIRE(share >= 0 && share <= 1, .what = "plan: value cannot be used", .where = where,
                   .found = str("bandwidth ", share), .expected = "0 to 1");
    }
  }
}

/// The terms that the factors multiply.
Factors terms_of(const CoLocation& point, Interference::Form form) {
  DeviceTraffic traffic;
  for (const double share : point.bandwidth) traffic.add(share);
  return {1, traffic.sum,
          form == Interference::Form::kPairwise ? traffic.met_by(point.bandwidth.front())
                                                : traffic.product};
}

double slowdown_of(const CoLocation& point, Interference::Form form) {
  const auto alone = static_cast<double>(point.alone.count);
  const auto together = static_cast<double>(point.together.count);
  return form == Interference::Form::kPairwise ? together / alone - 1 : together - alone;
}

bool is_held_out(std::size_t index) { return index % 3 == 2; }

/// Solves the normal equations for some factors, the others being 0; null when the terms are
/// linearly dependent.
std::optional<Factors> solve(const std::array<Factors, 3>& products, const Factors& right,
                             unsigned chosen) {
  std::array<std::array<double, 4>, 3> rows = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const bool is_chosen = chosen >> i & 1;
    for (std::size_t j = 0; j < 3; ++j) {
      rows[i][j] = is_chosen && (chosen >> j & 1) ? products[i][j] : i == j ? 1.0 : 0.0;
    }
    rows[i][3] = is_chosen ? right[i] : 0;
  }
  for (std::size_t pivot = 0; pivot < 3; ++pivot) {
    std::size_t best = pivot;
    for (std::size_t row = pivot; row < 3; ++row) {
      if (std::abs(rows[row][pivot]) > std::abs(rows[best][pivot])) best = row;
    }
    std::swap(rows[pivot], rows[best]);
    if (std::abs(rows[pivot][pivot]) < 1e-12 * (1 + products[pivot][pivot])) return std::nullopt;
    for (std::size_t row = 0; row < 3; ++row) {
      if (row == pivot) continue;
      const double factor = rows[row][pivot] / rows[pivot][pivot];
      for (std::size_t column = pivot; column < 4; ++column) {
        rows[row][column] -= factor * rows[pivot][column];
      }
    }
  }
  return Factors{rows[0][3] / rows[0][0], rows[1][3] / rows[1][1], rows[2][3] / rows[2][2]};
}

Factors fit(std::span<const CoLocation> points, Interference::Form form) {
  std::array<Factors, 3> products = {};
  Factors right = {};
  double squares = 0;
  for (std::size_t index = 0; index < points.size(); ++index) {
    if (is_held_out(index)) continue;
    const Factors terms = terms_of(points[index], form);
    const double slowdown = slowdown_of(points[index], form);
    squares += slowdown * slowdown;
    for (std::size_t i = 0; i < 3; ++i) {
      right[i] += terms[i] * slowdown;
      for (std::size_t j = 0; j < 3; ++j) products[i][j] += terms[i] * terms[j];
    }
  }
  Factors best = {};
  double min = squares;  // with all factors 0
  for (unsigned chosen = 1; chosen < 8; ++chosen) {
    const std::optional<Factors> found = solve(products, right, chosen);
    if (!found || (*found)[0] < 0 || (*found)[1] < 0 || (*found)[2] < 0) continue;
    double residual = squares;
    for (std::size_t i = 0; i < 3; ++i) {
      residual -= 2 * (*found)[i] * right[i];
      for (std::size_t j = 0; j < 3; ++j) residual += (*found)[i] * (*found)[j] * products[i][j];
    }
    if (residual < min) {
      min = residual;
      best = *found;
    }
  }
  return best;
}

double mean_error(std::span<const CoLocation> points, const Interference& interference,
                  bool held_out) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t index = 0; index < points.size(); ++index) {
    if (is_held_out(index) != held_out) continue;
    DeviceTraffic traffic;
    for (const double share : points[index].bandwidth) traffic.add(share);
    const Nanoseconds predicted =
        slowed(interference, points[index].alone, points[index].bandwidth.front(), traffic);
    sum += std::abs(static_cast<double>(predicted.count) /
                        static_cast<double>(points[index].together.count) -
                    1);
    ++count;
  }
  return sum / static_cast<double>(count);
}

}  // namespace

InterferenceFit fit_interference(std::span<const CoLocation> points, Interference::Form form) {
  check_points(points);
  TRIB_REQUIRE(form != Interference::Form::kNone, .what = "plan: form without factors");
  const Factors factors = fit(points, form);
  InterferenceFit found;
  found.interference = {form, factors[0], factors[1], factors[2]};
  found.error = mean_error(points, found.interference, true);
  found.error_in_fit = mean_error(points, found.interference, false);
  found.held_out = std::ssize(points) / 3;
  return found;
}

InterferenceFit fit_interference(std::span<const CoLocation> points) {
  const InterferenceFit relative = fit_interference(points, Interference::Form::kPairwise);
  const InterferenceFit published = fit_interference(points, Interference::Form::kPublished);
  return published.error < relative.error ? published : relative;
}

}  // namespace tributary::plan
