#include "parallel/norm.h"

#include "ops/rms_norm.h"
#include "parallel/split.h"

namespace tributary::parallel {

Norm::Norm(Unit& unit, const std::string& name, std::int64_t width, double epsilon, NormOver over)
    : weight_(&unit.declare(
          name + ".weight", {width}, {.kind = Initializer::Kind::kOnes, .deviation = 0},
          replicated(unit.layout(), over == NormOver::kHeads || unit.layout().sequence_parallel))),
      epsilon_(epsilon) {}

at::Tensor Norm::operator()(const at::Tensor& x) const {
  return ops::rms_norm(x, weight_->value, epsilon_);
}

}  // namespace tributary::parallel
