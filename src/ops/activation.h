#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Activations of plain MLPs. kQuickGelu is x * sigmoid(1.702 x), of Qwen2-VL.
enum class Activation { kGeluTanh, kQuickGelu };

/// shape: as x
[[nodiscard]] at::Tensor activate(const at::Tensor& x, Activation activation);

}  // namespace tributary::ops
