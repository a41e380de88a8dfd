#include "ops/activation.h"

#include <ATen/ATen.h>

namespace tributary::ops {

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kQuickGelu:
      break;
  }
  return x * at::sigmoid(1.702 * x);
}

}  // namespace tributary::ops
