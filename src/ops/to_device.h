#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Copies a tensor to a device. From the host it goes through pinned memory, so that neither the
/// host nor what is queued on the device waits for the copy.
///
/// stream: on CUDA the current one; the host may free `tensor` at once
[[nodiscard]] at::Tensor to_device(const at::Tensor& tensor, at::Device device);

}  // namespace tributary::ops
