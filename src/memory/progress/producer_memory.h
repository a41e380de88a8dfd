#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "memory/arena/arena.h"
#include "memory/transport/cuda/device_memory.h"
#include "memory/transport/sealed_segment.h"

namespace tributary::memory {

/// Where a producer keeps its objects: a segment on the host and, with a device, a copy of it there
/// that has the same pages at the same places.
class ProducerMemory {
 public:
  /// owns:   shares the device; null: there is no copy
  /// errors: those of SealedSegment; Fault::kResource when the device has no room
  ProducerMemory(SegmentLayout layout, std::shared_ptr<DeviceMemory> device);

  [[nodiscard]] const SealedSegment& segment() const { return segment_; }
  [[nodiscard]] const DeviceSegment* copy() const { return copy_.get(); }

  /// The pages of runs in order, on the host.
  [[nodiscard]] std::vector<std::span<std::byte>> pages_of(std::span<const PageRun> runs) const;
  /// Writes an object into its pages of the host.
  ///
  /// errors: Fault::kBug when they do not hold it
  static void write(std::span<const std::byte> object, std::span<const std::span<std::byte>> pages);
  /// Writes an object that is on the device into the copy of its pages. False where there is none,
  /// or the device fails, which the log tells: then the host alone has it.
  [[nodiscard]] bool write_copy(std::span<const std::byte> on_device,
                                std::span<const std::span<std::byte>> pages) const;

 private:
  SealedSegment segment_;
  std::shared_ptr<DeviceMemory> device_;
  std::unique_ptr<DeviceSegment> copy_;
};

}  // namespace tributary::memory
