#pragma once

#include "config/policies.h"
#include "cost/device_work.h"

namespace tributary::cost {

/// Bytes of one value.
inline double element_bytes(config::Dtype dtype) {
  return dtype == config::Dtype::kFloat32 ? 4 : 2;
}

/// The work of one layer in its passes.
struct LayerPasses {
  explicit LayerPasses(const config::DeviceModel& device)
      : forward(device),
        input_gradient(device),
        weight_gradient(device),
        core(device),
        core_gradient(device),
        mlp(device) {}

  /// Adds a linear layer: its two products in backward have the sizes of the one in forward.
  void add_linear(double tokens, double in, double out, double bytes, double count = 1) {
    forward.add_product(tokens, out, in, bytes, count);
    input_gradient.add_product(tokens, in, out, bytes, count);
    // Tokens are never the contiguous inner size, so any number of them counts as aligned.
    weight_gradient.add_product(tokens, out, in, bytes, count);
    // The gradient of a microbatch is added to the sum so far: two reads and a write.
    weight_gradient.add_bytes(3 * bytes * in * out * count);
  }

  DeviceWork forward, input_gradient, weight_gradient;
  DeviceWork core, core_gradient;  // attention only, in forward and input gradient
  DeviceWork mlp;                  // the MLP only, in forward
};

}  // namespace tributary::cost
