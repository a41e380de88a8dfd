#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/handle.h"
#include "core/result.h"
#include "memory/address/page_table.h"
#include "memory/arena/arena.h"
#include "memory/status.h"
#include "memory/transport/cuda/device_memory.h"
#include "memory/transport/sealed_segment.h"

namespace tributary::memory {

/// What the key of a row says about memory that is mapped.
struct MemoryOffer {
  std::string path;               // of the unix socket at which descriptors are given
  DeviceId device{};              // that has a copy of the segment, in chunks of this size
  std::uint64_t chunk_bytes = 0;  // 0: none
};
/// The key of a segment that is shared at this path.
[[nodiscard]] TransportKey memfd_key(const std::string& path);
/// The key of a segment with a copy on a device.
[[nodiscard]] TransportKey cuda_key(const MemoryOffer& offer);
/// errors: Refusal (`key`) when the row has no key of the engine, or one that says something else
[[nodiscard]] Result<MemoryOffer> find_offer(const SegmentRow& row, Engine engine);

/// An object in mapped memory.
struct PlacedObject {
  std::vector<PageRun> runs = {};
  std::uint64_t generation = 0;
  std::optional<std::uint32_t> crc32c = {};  // when it is to be checked
  bool is_on_device = false;                 // it is copied there, also to memory of the host
};

/// The memory of one owner as this process has mapped it: the segment and, for a reader with a
/// device, the copy of it on the owner's device. Any thread copies from it.
class ReadableMemory {
 public:
  /// Maps what the owner of a row has sent: the descriptor of its segment, then those of chunks.
  ///
  /// errors: Refusal, those of MappedSegment::map() and DeviceMemory::map_segment()
  [[nodiscard]] static Result<ReadableMemory> map(const SegmentRow& row, const MemoryOffer& offer,
                                                  std::vector<Descriptor> descriptors,
                                                  std::shared_ptr<DeviceMemory> device);

  /// errors: as copy_object; kCorrupt when the checksum differs; kBackend when the device fails, be
  ///         it under the check
  [[nodiscard]] Status copy_out(const PlacedObject& object, std::span<std::byte> into) const;

 private:
  explicit ReadableMemory(MappedSegment segment) : segment_(std::move(segment)) {}
  [[nodiscard]] Status copy_from_device(const PlacedObject& object,
                                        std::span<std::byte> into) const;
  [[nodiscard]] Status check(const PlacedObject& object, std::span<const std::byte> bytes) const;
  [[nodiscard]] Status copy_on_device(std::span<const DeviceCopy> copies) const;

  MappedSegment segment_;
  std::shared_ptr<DeviceMemory> device_;  // null: everything is read from the segment
  std::unique_ptr<DeviceSegment> copy_;
};

}  // namespace tributary::memory
