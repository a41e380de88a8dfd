#pragma once

#include "config/artifact/cluster.h"
#include "core/units.h"

namespace tributary::cost {

/// The work of a pass on a device, summed over its kernels; each product is judged separately.
class DeviceWork {
 public:
  explicit DeviceWork(const config::DeviceModel& device) : device_(&device) {}

  /// Adds `count` products of [m, k] by [k, n]: the slower of arithmetic and memory.
  void add_product(double m, double n, double k, double element_bytes, double count = 1);
  /// Adds arithmetic at `share` of the peak, and memory traffic: the slower of both.
  void add_core(double flops, double share, double bytes);
  void add_bytes(double bytes);
  void add_kernels(double kernels) { kernels_ += kernels; }

  [[nodiscard]] double kernels() const { return kernels_; }
  /// Smooth maximum of device and host time; 0 without kernels.
  [[nodiscard]] Nanoseconds time() const;

 private:
  const config::DeviceModel* device_;
  double seconds_ = 0;
  double kernels_ = 0;
};

}  // namespace tributary::cost
