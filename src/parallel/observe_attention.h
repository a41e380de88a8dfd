#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace tributary::parallel {

class UnitChain;

/// Runs an attention core and tells the observer of the chain, if there is one, when the core
/// begins and ends, in forward and in backward.
///
/// shape: qkv and result as those of `attend`; `chain` may be null
[[nodiscard]] at::Tensor observe_attention(
    const UnitChain* chain, const at::Tensor& qkv,
    const std::function<at::Tensor(const at::Tensor& qkv)>& attend);

}  // namespace tributary::parallel
