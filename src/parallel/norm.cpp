#include "parallel/norm.h"

#include "ops/rms_norm.h"

namespace tributary::parallel {

Norm::Norm(Unit& unit, const std::string& name, std::int64_t width, double epsilon)
    : weight_(&unit.declare(name + ".weight", {width},
                            {.kind = Initializer::Kind::kOnes, .deviation = 0})),
      epsilon_(epsilon) {}

at::Tensor Norm::operator()(const at::Tensor& x) const {
  return ops::rms_norm(x, weight_->value, epsilon_);
}

}  // namespace tributary::parallel
