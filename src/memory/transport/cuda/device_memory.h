#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/handle.h"
#include "core/result.h"

namespace tributary::memory {

/// Names a device among all of its machine, whichever of them a process sees.
using DeviceId = std::array<std::byte, 16>;

/// Memory of a device that is taken in chunks of one size, the last one too.
struct DeviceLayout {
  std::uint64_t bytes = 0, chunk_bytes = 0;

  [[nodiscard]] std::uint64_t chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
  friend bool operator==(const DeviceLayout&, const DeviceLayout&) = default;
};
/// Cuts memory into the fewest chunks of about 256 MiB at most, multiples of `granularity` bytes.
[[nodiscard]] inline DeviceLayout lay_out_chunks(std::uint64_t bytes, std::uint64_t granularity) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
  const auto divide_up = [](std::uint64_t value, std::uint64_t by) {
    return (value + by - 1) / by;
  };
  const std::uint64_t of_each = divide_up(bytes, divide_up(bytes, kMaxBytes));
  return {.bytes = bytes, .chunk_bytes = divide_up(of_each, granularity) * granularity};
}

/// Memory of a device that processes share: one has made it, others map it. It goes back to the
/// device when the last of them has ended, however it ended.
class DeviceSegment {
 public:
  virtual ~DeviceSegment() = default;

  [[nodiscard]] virtual DeviceLayout layout() const = 0;
  /// Addresses of the device, from one chunk to the next; the host cannot read them.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// Whether this process is kept from writing, for which not every driver is good.
  [[nodiscard]] virtual bool is_read_only() const = 0;
  /// What other processes map the chunks by, in their order; of a segment that was made here.
  ///
  /// errors: Refusal (`device`)
  [[nodiscard]] virtual Result<std::vector<Descriptor>> export_chunks() const = 0;
};

/// Bytes to copy, between any of the host, this device and segments that are mapped to it.
struct DeviceCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
};

/// A device, as the pool uses it. Any thread may call; what it gives keeps it alive.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  [[nodiscard]] virtual DeviceId id() const = 0;
  /// errors: Refusal (`device`) when there is too little memory
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceSegment>> make_segment(
      std::uint64_t bytes) = 0;
  /// Why this device cannot read memory of another one of its machine; null: it can.
  [[nodiscard]] virtual std::optional<Refusal> find_obstacle(const DeviceId& other) const = 0;
  /// Maps what another process has exported, to be read by this device.
  ///
  /// errors: Refusal (`device`), also where the chunks are not of this layout
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceSegment>> map_segment(
      std::vector<Descriptor> chunks, const DeviceLayout& layout) = 0;

  /// Takes memory of this device that no other process maps.
  ///
  /// errors: Refusal (`device`) when there is too little
  [[nodiscard]] virtual Result<std::byte*> allocate(std::uint64_t bytes) = 0;
  /// Gives it back, once the device has done what its default stream has been given so far.
  virtual void free(std::byte* begin) noexcept = 0;
  /// Copies, and waits for the end. What is copied was written before: by the host, or by work of
  /// the device that has ended.
  ///
  /// errors: Refusal (`device`)
  [[nodiscard]] virtual std::optional<Refusal> copy(std::span<const DeviceCopy> copies) = 0;
};

/// What the library libtributary_cuda_memory.so has; it is loaded when a device is first opened.
struct DeviceLibrary {
  /// errors: Refusal (`device`) why this device of the process cannot be used
  Result<std::shared_ptr<DeviceMemory>> (*open)(int ordinal);
};
/// Opens a CUDA device by its number in this process.
///
/// errors: Refusal (`device`) where the library is not built, or as its open()
[[nodiscard]] Result<std::shared_ptr<DeviceMemory>> open_device_memory(int ordinal);
/// As open_device_memory(), for a user who asked for the engine.
///
/// errors: Fault::kInput where open_device_memory() is refused
[[nodiscard]] std::shared_ptr<DeviceMemory> require_device_memory(int ordinal);

}  // namespace tributary::memory
