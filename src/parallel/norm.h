#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/parameter.h"

namespace tributary::parallel {

/// Root-mean-square norm over the last dimension, with the parameter `name`.weight [width].
class Norm {
 public:
  Norm(Unit& unit, const std::string& name, std::int64_t width, double epsilon);
  /// shape: x [..., width] -> returns [..., width]
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

 private:
  Parameter* weight_;
  double epsilon_;
};

}  // namespace tributary::parallel
