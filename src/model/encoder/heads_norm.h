#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/linear.h"
#include "parallel/unit.h"

namespace tributary::model {

/// A root mean square norm over all heads of a row together, with the parameter `name`.weight
/// [heads * width]. Heads are cut over tp, so that ranks add their sums of squares.
class HeadsNorm {
 public:
  HeadsNorm(parallel::Unit& unit, const std::string& name, const parallel::Heads& heads,
            double epsilon);
  /// shape: x [rows, heads of this rank, width] -> returns the same
  /// dtype: f32 inside; the weight multiplies in that of x
  /// collective: over tp
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

 private:
  const parallel::Layout* layout_;
  std::int64_t width_;  // of all heads
  double epsilon_;
  parallel::Parameter* weight_;
};

}  // namespace tributary::model
