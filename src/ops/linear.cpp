#include "ops/linear.h"

#include <optional>

#include <ATen/ATen.h>

namespace tributary::ops {
namespace {

std::optional<at::Tensor> present(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  // CPUs without bf16 arithmetic multiply bf16 sixty times slower than they multiply its f32 copy.
  const bool widen = x.is_cpu() && at::isReducedFloatingType(x.scalar_type());
  if (!widen) return at::linear(x, weight, present(bias));
  const at::Tensor wide_bias = bias.defined() ? bias.to(at::kFloat) : bias;
  return at::linear(x.to(at::kFloat), weight.to(at::kFloat), present(wide_bias))
      .to(x.scalar_type());
}

}  // namespace tributary::ops
