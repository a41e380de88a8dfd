#include "cost/device_work.h"

#include <algorithm>
#include <cmath>

namespace tributary::cost {
namespace {

constexpr double kAligned = 8;  // elements; the alignment that 16-bit tensor cores want

bool is_aligned(double width) {
  const double times = width / kAligned;
  return times == static_cast<double>(static_cast<std::int64_t>(times));
}

}  // namespace

void DeviceWork::add_product(double m, double n, double k, double element_bytes, double count) {
  const bool aligned = is_aligned(n) && is_aligned(k);
  const double rate = device_->matrix_flops_per_s * device_->matrix_share *
                      (aligned ? 1 : device_->misaligned_share);
  const double ramp =
      device_->matrix_ramp_flops / (device_->matrix_flops_per_s * device_->matrix_share);
  const double bytes = element_bytes * (m * n + n * k + m * k);
  const double traffic = bytes / (device_->memory_bytes_per_s * device_->memory_share);
  seconds_ += count * std::max(2 * m * n * k / rate + ramp, traffic);
  kernels_ += 1;
}

void DeviceWork::add_core(double flops, double share, double bytes) {
  seconds_ += std::max(flops / (device_->matrix_flops_per_s * share),
                       bytes / (device_->memory_bytes_per_s * device_->memory_share));
}

void DeviceWork::add_bytes(double bytes) {
  seconds_ += bytes / (device_->memory_bytes_per_s * device_->memory_share);
}

Nanoseconds DeviceWork::time() const {
  if (kernels_ == 0 && seconds_ == 0) return {0};
  const double host = kernels_ * device_->launch_s;
  const double slower = std::max(host, seconds_);
  if (slower == 0) return {1};
  const double ratio = std::min(host, seconds_) / slower;
  const double blend = device_->launch_blend;
  const double blended = slower * std::pow(1 + std::pow(ratio, blend), 1 / blend);
  return {std::max<std::int64_t>(1, std::llround(1e9 * blended))};
}

}  // namespace tributary::cost
