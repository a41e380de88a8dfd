#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "memory/transport/cuda/device_memory.h"

namespace tributary::memory {

/// Bytes that are not set to anything, at an address that is a multiple of 64.
class ObjectBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  ObjectBuffer() = default;
  explicit ObjectBuffer(std::size_t bytes)
      : bytes_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}))),
        size_(bytes) {}
  /// Memory of a device, which the host cannot read. At its end it waits for what the device's
  /// default stream has been given.
  ///
  /// owns: takes `begin`, of device->allocate()
  ObjectBuffer(std::byte* begin, std::size_t bytes, std::shared_ptr<DeviceMemory> device)
      : bytes_(begin, Free{std::move(device)}), size_(bytes) {}

  [[nodiscard]] std::byte* data() { return bytes_.get(); }
  [[nodiscard]] const std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> span() { return {bytes_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> span() const { return {bytes_.get(), size_}; }
  [[nodiscard]] bool is_on_device() const { return bytes_.get_deleter().device != nullptr; }

 private:
  struct Free {
    std::shared_ptr<DeviceMemory> device;  // null: it is memory of the host
    void operator()(std::byte* bytes) const {
      if (device)
        device->free(bytes);
      else
        ::operator delete (bytes, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace tributary::memory
