#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Activations of plain MLPs. kGelu has the error function; kQuickGelu is x * sigmoid(1.702 x), of
/// Qwen2-VL.
enum class Activation { kGelu, kGeluTanh, kQuickGelu };

/// shape: as x
[[nodiscard]] at::Tensor activate(const at::Tensor& x, Activation activation);

}  // namespace tributary::ops
