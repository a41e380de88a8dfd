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
      first_([&] {
        if (!style.norm.empty())
          norm_.emplace(unit, prefix + style.norm, norms_joined_ ? joined_ : config.width,
                        style.epsilon, parallel::NormOver::kTokens, style.kind);
        return parallel::Linear(
            unit, prefix + style.first,
            {joined_, config.projector_width(), style.bias ? Bias::kZeros : Bias::kNone,
             config.initializer_range, Cut::kColumns});
      }()),
      second_(unit, prefix + style.second,
              {config.projector_width(), config.output_width,
               style.bias ? Bias::kZeros : Bias::kNone, config.initializer_range, Cut::kRows}) {}

at::Tensor PatchMerger::run(const at::Tensor& patches, parallel::Keep keep,
                            parallel::LayerBody arrange) const {
  return parallel::run_layer(
      unit_, keep, patches, [this, arrange = std::move(arrange)](const at::Tensor& x) {
        const at::Tensor joined =
            norms_joined_ || !norm_ ? x.reshape({-1, joined_}) : (*norm_)(x).view({-1, joined_});
        const at::Tensor normalised = norms_joined_ && norm_ ? (*norm_)(joined) : joined;
        const at::Tensor tokens = second_(at::gelu(first_(normalised)));
        return arrange ? arrange(tokens) : tokens;
      });
}

}  // namespace tributary::model
