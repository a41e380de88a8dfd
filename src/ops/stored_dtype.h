#pragma once

#include <ATen/core/Tensor.h>

#include "core/file/safetensors.h"

namespace tributary::ops {

/// The element type of a tensor in a file. errors: Fault::kInput for one that files do not hold
[[nodiscard]] StoredDtype stored_dtype(at::ScalarType dtype);
/// The type of a tensor read from a file. errors: Fault::kInput for one that tensors do not hold
[[nodiscard]] at::ScalarType scalar_type(StoredDtype dtype);

}  // namespace tributary::ops
