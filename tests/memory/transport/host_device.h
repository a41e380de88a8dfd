#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "memory/transport/cuda/device_memory.h"

namespace tributary::memory {

/// A device of memory of the host, for machines without one. Its addresses are none of the host's:
/// whoever reads or writes there himself ends the process. Segments travel by descriptors, and are
/// mapped read-only.
class HostDevice final : public DeviceMemory, public std::enable_shared_from_this<HostDevice> {
 public:
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;

  /// A device that can read the memory of `peers`, beside its own.
  explicit HostDevice(std::uint8_t number, std::set<std::uint8_t> peers = {})
      : number_(number), peers_(std::move(peers)) {}

  [[nodiscard]] DeviceId id() const override { return {std::byte{number_}}; }
  [[nodiscard]] Result<std::unique_ptr<DeviceSegment>> make_segment(std::uint64_t bytes) override;
  [[nodiscard]] std::optional<Refusal> find_obstacle(const DeviceId& other) const override;
  [[nodiscard]] Result<std::unique_ptr<DeviceSegment>> map_segment(
      std::vector<Descriptor> chunks, const DeviceLayout& layout) override;
  [[nodiscard]] Result<std::byte*> allocate(std::uint64_t bytes) override;
  void free(std::byte* begin) noexcept override;
  [[nodiscard]] std::optional<Refusal> copy(std::span<const DeviceCopy> copies) override;

  /// What lies at an address, as a program finds out that has the device copy it.
  [[nodiscard]] std::vector<std::byte> read(std::span<const std::byte> from);
  void write(std::span<const std::byte> bytes, std::byte* to);

  std::atomic<int> mapped_chunks = 0, copies_made = 0;  // so far
  std::atomic<int> segments = 0, allocations = 0;       // now
  std::atomic<bool> is_full = false, is_broken = false;
  std::function<void()> within_copy = {};  // between the halves of the next copies

 private:
  friend class HostSegment;
  /// Gives memory an address of the device.
  std::byte* add(std::byte* memory, std::uint64_t bytes);
  /// Returns the memory again.
  std::byte* remove(std::byte* begin);
  [[nodiscard]] std::byte* memory_at(const std::byte* address);

  struct Window {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };
  std::uint8_t number_;
  std::set<std::uint8_t> peers_;
  std::mutex mutex_;                            // guards windows_
  std::map<const std::byte*, Window> windows_;  // by address
};

}  // namespace tributary::memory
