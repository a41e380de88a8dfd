#pragma once

#include "config/artifact/cluster.h"
#include "core/units.h"

namespace tributary::cost {

/// What a pass asks of a device, added up over its kernels; each product is judged by itself.
class DeviceWork {
 public:
  explicit DeviceWork(const config::DeviceModel& device) : device_(&device) {}

  /// `count` products of [m, k] by [k, n]: the slower of arithmetic and memory.
  void add_product(double m, double n, double k, double element_bytes, double count = 1);
  /// Arithmetic at a share of the peak, beside memory traffic; the slower of both.
  void add_core(double flops, double share, double bytes);
  void add_bytes(double bytes);
  void add_kernels(double kernels) { kernels_ += kernels; }

  [[nodiscard]] double kernels() const { return kernels_; }
  /// Smooth maximum of device and host time; work of no kernel takes no time.
  [[nodiscard]] Nanoseconds time() const;

 private:
  const config::DeviceModel* device_;
  double seconds_ = 0;
  double kernels_ = 0;
};

}  // namespace tributary::cost
