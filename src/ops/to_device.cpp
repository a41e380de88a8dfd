#include "ops/to_device.h"

#include <ATen/ATen.h>

namespace tributary::ops {

at::Tensor to_device(const at::Tensor& tensor, at::Device device) {
  if (tensor.device() == device) return tensor;
  const bool is_from_host = tensor.is_cpu() && tensor.numel() > 0;
  return (is_from_host ? tensor.pin_memory() : tensor).to(device, /*non_blocking=*/is_from_host);
}

}  // namespace tributary::ops
