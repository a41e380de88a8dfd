#include "model/encoder/patch_merger.h"

#include <ATen/ATen.h>

namespace tributary::model {

using parallel::Bias;
using parallel::Cut;

PatchMerger::PatchMerger(const config::VisionConfig& config, const Style& style,
                         const std::string& prefix, parallel::Unit& unit)
    : unit_(unit),
      joined_(config.width * config.merge * config.merge),
      norms_joined_(style.norms_joined),
      norm_(unit, prefix + style.norm, norms_joined_ ? joined_ : config.width, config.norm_epsilon,
            parallel::NormOver::kTokens, style.kind),
      first_(unit, prefix + style.first,
             {joined_, joined_, Bias::kZeros, config.initializer_range, Cut::kColumns}),
      second_(unit, prefix + style.second,
              {joined_, config.output_width, Bias::kZeros, config.initializer_range, Cut::kRows}) {}

at::Tensor PatchMerger::run(const at::Tensor& patches, parallel::Keep keep) const {
  return parallel::run_layer(unit_, keep, patches, [this](const at::Tensor& x) {
    const at::Tensor joined =
        norms_joined_ ? norm_(x.reshape({-1, joined_})) : norm_(x).view({-1, joined_});
    return second_(at::gelu(first_(joined)));
  });
}

}  // namespace tributary::model
