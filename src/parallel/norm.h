#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/unit.h"

namespace tributary::parallel {

/// What a norm sees of the model's rows on one tp rank.
enum class NormOver { kTokens, kHeads };

/// Root-mean-square norm over the last dimension, with the parameter `name`.weight [width].
class Norm {
 public:
  /// Over tokens every tp rank does the same, or its own tokens; over heads always its own.
  Norm(Unit& unit, const std::string& name, std::int64_t width, double epsilon,
       NormOver over = NormOver::kTokens);
  /// shape: x [..., width] -> returns [..., width]
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

 private:
  Parameter* weight_;
  double epsilon_;
};

}  // namespace tributary::parallel
