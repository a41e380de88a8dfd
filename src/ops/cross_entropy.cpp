#include "ops/cross_entropy.h"

#include <ATen/ATen.h>

namespace tributary::ops {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::ScalarType wide = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::cross_entropy_loss(logits.to(wide), targets, {}, at::Reduction::None);
}

}  // namespace tributary::ops
