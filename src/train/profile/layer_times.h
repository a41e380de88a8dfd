#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/pass_observer.h"

namespace tributary::train {

/// A kind of layer within its module, as in the tables of a profile.
struct LayerKey {
  std::string module;
  std::string layer;

  friend auto operator<=>(const LayerKey&, const LayerKey&) = default;
};

/// A moment of a microbatch at which a layer was observed.
struct LayerMark {
  LayerKey layer;
  parallel::LayerPass pass = parallel::LayerPass::kForward;
  double time = 0;        // [s] without waits
  double attention = 0;   // [s] spent in attention cores until then
  std::int64_t live = 0;  // bytes of tensors then
  std::int64_t peak = 0;  // max since the mark before
};

/// One stretch of a microbatch: the forward, the backward, or weight gradients that were put off.
struct MarkedStretch {
  LayerMark begin;  // its layer is not read
  std::vector<LayerMark> marks;
  LayerMark end;
};

/// What the layers of one kind took in one microbatch, all of them together.
struct LayerUse {
  std::int64_t layers = 0;
  double forward = 0;   // [s]
  double backward = 0;  // of the input and of the weights that were not put off
  double weights = 0;   // that were put off
  double recompute = 0;
  double attention_forward = 0;   // of the core, in `forward`
  double attention_backward = 0;  // in `backward`
  std::int64_t kept = 0;          // bytes from forward to backward
  std::int64_t peak = 0;          // max bytes that one layer adds while its backward runs

  LayerUse& operator+=(const LayerUse& other);
};

using LayerUses = std::map<LayerKey, LayerUse>;

/// Cut a stretch into layers without gaps. A forward mark ends its layer, which began at the mark
/// before; any other mark begins its layer, which ends at the next. What lies after the last
/// forward mark or before the first backward mark belongs to the layer of that mark.
[[nodiscard]] LayerUses cut_forward(const MarkedStretch& stretch);
[[nodiscard]] LayerUses cut_backward(const MarkedStretch& stretch);

/// Median of `values`, and (max - min) / median. errors: Fault::kBug without values
struct Spread {
  double median = 0;
  double spread = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> values);

}  // namespace tributary::train
