#pragma once

#include <functional>
#include <span>
#include <vector>

namespace tributary::cost {

/// A number to find: positive, searched for on a logarithmic scale.
struct FitParameter {
  double start = 1;   // the value believed before any measurement
  double spread = 1;  // how far it may be from the start, as the logarithm of a factor
  double min = 0;
  double max = 0;
};

struct FitBudget {
  int iterations = 60;
  double robust_scale = 0.1;  // larger residuals count linearly, no longer by their square
  double prior_weight = 0.1;  // weight, as a residual, of a parameter one spread off its start
};

struct Fit {
  std::vector<double> values;  // [parameters]
  double cost = 0;
  int iterations = 0;
};

/// Finds parameters that make residuals small: Levenberg-Marquardt with derivatives by differences,
/// the pseudo-Huber loss by re-weighting, and a pull towards the start of each parameter.
///
/// shape:  residuals(values, out) fills out [count]
/// owns:   nothing; the same input gives the same answer
/// errors: Fault::kInput when a residual at the start is not finite
/// cost:   iterations * parameters calls of residuals
/// source: Levenberg 1944, Marquardt 1963; loss: Charbonnier 1997
[[nodiscard]] Fit fit_least_squares(
    std::span<const FitParameter> parameters, std::size_t count,
    const std::function<void(std::span<const double>, std::span<double>)>& residuals,
    FitBudget budget = {});

}  // namespace tributary::cost
