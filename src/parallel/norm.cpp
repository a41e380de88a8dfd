#include "parallel/norm.h"

#include <ATen/ATen.h>

#include "ops/rms_norm.h"
#include "parallel/split.h"

namespace tributary::parallel {

Norm::Norm(Unit& unit, const std::string& name, std::int64_t width, double epsilon, NormOver over,
           NormKind kind)
    : epsilon_(epsilon) {
  const Split split =
      replicated(unit.layout(), over == NormOver::kHeads || unit.layout().sequence_parallel);
  weight_ = &unit.declare(name + ".weight", {width},
                          {.kind = Initializer::Kind::kOnes, .deviation = 0}, split);
  if (kind == NormKind::kLayer) bias_ = &unit.declare(name + ".bias", {width}, {}, split);
}

at::Tensor Norm::operator()(const at::Tensor& x) const {
  if (bias_ == nullptr) return ops::rms_norm(x, weight_->value, epsilon_);
  return at::layer_norm(x, {x.size(-1)}, weight_->value, bias_->value, epsilon_);
}

}  // namespace tributary::parallel
