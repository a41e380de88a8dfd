#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/unit.h"

namespace tributary::parallel {

/// What a norm sees of the model's rows on one tp rank.
enum class NormOver { kTokens, kHeads };

/// kRootMeanSquare has a weight; kLayer takes the mean away first and has a bias too.
enum class NormKind { kRootMeanSquare, kLayer };

/// A norm over the last dimension, with the parameters `name`.weight and, of a layer norm,
/// `name`.bias [width].
class Norm {
 public:
  /// Over tokens every tp rank does the same, or its own tokens; over heads always its own.
  Norm(Unit& unit, const std::string& name, std::int64_t width, double epsilon,
       NormOver over = NormOver::kTokens, NormKind kind = NormKind::kRootMeanSquare);
  /// shape: x [..., width] -> returns [..., width]
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;  // of a layer norm
  double epsilon_;
};

}  // namespace tributary::parallel
