#include "train/profile/live_bytes.h"

#include <algorithm>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace tributary::train {

/// Hears of every allocation, on host and device.
class LiveBytes::Reporter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*address*/, std::int64_t bytes, std::size_t /*allocated*/,
                         std::size_t /*reserved*/, c10::Device /*device*/) override {
    now += bytes;
    since = std::max(since, now);
    max = std::max(max, now);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  std::int64_t now = 0;
  std::int64_t since = 0;
  std::int64_t max = 0;
};

class LiveBytes::Guard {
 public:
  explicit Guard(const std::shared_ptr<Reporter>& reporter)
      : guard_(c10::DebugInfoKind::PROFILER_STATE, reporter) {}

 private:
  c10::DebugInfoGuard guard_;
};

LiveBytes::LiveBytes()
    : reporter_(std::make_shared<Reporter>()), guard_(std::make_unique<Guard>(reporter_)) {}

LiveBytes::~LiveBytes() = default;

void LiveBytes::count(bool counts) {
  if (counts != (guard_ != nullptr)) guard_ = counts ? std::make_unique<Guard>(reporter_) : nullptr;
}

std::int64_t LiveBytes::now() const { return reporter_->now; }

std::int64_t LiveBytes::peak() const { return reporter_->max; }

std::int64_t LiveBytes::take_peak() {
  const std::int64_t peak = reporter_->since;
  reporter_->since = reporter_->now;
  return peak;
}

}  // namespace tributary::train
