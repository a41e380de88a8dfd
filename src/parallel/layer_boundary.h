#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "parallel/unit.h"

namespace tributary::parallel {

/// What a layer keeps for backward: all activations; those of its attention or of its MLP, while
/// the other is computed again; only its input; only its input, in host memory.
enum class Keep { kActivations, kAttention, kMlp, kInput, kInputOnHost };

/// The two halves of a layer, each with the norm in front of it.
enum class LayerPart { kAttention, kMlp };

/// What the layers of a module keep: `keep` those whose number in the module `every` divides, all
/// activations the others.
struct LayerKeep {
  Keep keep = Keep::kActivations;
  std::int64_t every = 1;

  [[nodiscard]] Keep of(std::int64_t layer) const {
    return layer % every == 0 ? keep : Keep::kActivations;
  }
};

/// What the layers of each module keep.
using KeepOf = std::function<LayerKeep(std::string_view module)>;

/// The body of one layer: hidden states in, hidden states out. Whatever else it reads is captured,
/// stays alive with it and has no gradient.
using LayerBody = std::function<at::Tensor(const at::Tensor& hidden)>;

/// Runs one layer inside the one autograd boundary around it: the only place that knows of
/// recompute, offload and gathering parameters.
///
/// The unit is whole while the body runs, forward and backward; its gradient is reduced after the
/// backward of its last use. With Keep::kInput the layer runs again in backward: memory of one
/// input instead of all activations, for one more forward; gradients are bit-equal to
/// Keep::kActivations. With Keep::kInputOnHost not even the input stays on the device.
/// shape: hidden [tokens, width] -> returns what `body` returns
/// owns:  `body` is kept until backward has passed; `unit` must outlive it
/// collective: over shard, in forward and in backward, unless the unit is direct
[[nodiscard]] at::Tensor run_layer(Unit& unit, Keep keep, const at::Tensor& hidden, LayerBody body);

/// Runs a part of a layer and keeps only its input: backward runs the part again.
///
/// Only inside the body of the unit's layer, which holds the unit whole.
/// shape: x and result as in `body`, which is kept until backward has passed
[[nodiscard]] at::Tensor run_twice(const Unit& unit, const at::Tensor& x, LayerBody body);
/// As run_twice where the other part alone is kept; else just runs the part.
[[nodiscard]] at::Tensor run_part(const Unit& unit, Keep keep, LayerPart part, const at::Tensor& x,
                                  LayerBody body);

}  // namespace tributary::parallel
