#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Gates one half of each row by the other: silu(gate) * up.
///
/// shape:  gate_up [rows, 2 * width], the gate first -> returns [rows, width]
/// dtype:  any float; silu is rounded to it before the product, as transformers does
/// cost:   keeps only gate_up for backward
/// source: Shazeer 2020, "GLU variants improve transformer" (arXiv:2002.05202), SwiGLU
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate_up);

}  // namespace tributary::ops
