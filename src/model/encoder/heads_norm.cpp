#include "model/encoder/heads_norm.h"

#include <ATen/ATen.h>

#include "parallel/split.h"
#include "parallel/token_exchange.h"

namespace tributary::model {

HeadsNorm::HeadsNorm(parallel::Unit& unit, const std::string& name, const parallel::Heads& heads,
                     double epsilon)
    : layout_(&unit.layout()),
      width_(heads.rows()),
      epsilon_(epsilon),
      weight_(&unit.declare(name + ".weight", {width_},
                            {.kind = parallel::Initializer::Kind::kOnes, .deviation = 0},
                            parallel::split_heads(unit.layout(), heads.count, heads.width))) {}

at::Tensor HeadsNorm::operator()(const at::Tensor& x) const {
  const at::Tensor wide = x.flatten(1).to(at::kFloat);
  // Every rank divides its own heads by the sum, so gradients of the sum are added as well.
  const at::Tensor squares = parallel::copy_to_ranks(
      parallel::sum_over_ranks(wide.square().sum(1, /*keepdim=*/true), layout_->tp()),
      layout_->tp());
  const at::Tensor normalised = wide * at::rsqrt(squares / width_ + epsilon_);
  return (weight_->value * normalised.to(x.scalar_type())).view(x.sizes());
}

}  // namespace tributary::model
