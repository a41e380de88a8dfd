#include "ops/sinusoids.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

namespace tributary::ops {

at::Tensor sinusoids(std::int64_t rows, std::int64_t width) {
  const std::int64_t half = width / 2;
  const double step = std::log(1e4) / static_cast<double>(std::max<std::int64_t>(1, half - 1));
  const at::Tensor frequencies = (at::arange(half, at::kFloat) * -step).exp();
  const at::Tensor angles = at::arange(rows, at::kFloat).unsqueeze(1) * frequencies;
  return at::cat({angles.sin(), angles.cos()}, 1);
}

}  // namespace tributary::ops
