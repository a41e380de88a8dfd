#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/parameter.h"

namespace tributary::parallel {

enum class Bias { kNone, kZeros };  // kZeros: a bias that starts at 0

/// Sizes of a linear block and the deviation its weight starts with.
struct LinearShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  Bias bias = Bias::kNone;
  double deviation = 0.02;
};

/// x W^T + b, with parameters `name`.weight [out, in] and `name`.bias [out].
class Linear {
 public:
  Linear(Unit& unit, const std::string& name, LinearShape shape);
  /// shape: x [rows, in] -> returns [rows, out]
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

/// Several linear maps of the same input as one product: the results lie side by side in each row.
/// In checkpoints they are separate parameters.
class JoinedLinear {
 public:
  /// `out` of the shape is not read: `outs` has one entry a name.
  JoinedLinear(Unit& unit, const std::vector<std::string>& names,
               const std::vector<std::int64_t>& outs, LinearShape shape);
  /// shape: x [rows, in] -> returns [rows, sum(outs)]
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;

 private:
  JoinedParameters* weight_;
  JoinedParameters* bias_ = nullptr;
};

}  // namespace tributary::parallel
