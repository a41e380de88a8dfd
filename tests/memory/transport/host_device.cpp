#include "tests/memory/transport/host_device.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/text.h"

namespace tributary::memory {

/// Chunks one behind the other, each of a descriptor.
class HostSegment final : public DeviceSegment {
 public:
  HostSegment(std::shared_ptr<HostDevice> device, const DeviceLayout& layout,
              std::vector<Descriptor> chunks, bool writes)
      : device_(std::move(device)),
        layout_(layout),
        chunks_(std::move(chunks)),
        is_read_only_(!writes) {
    void* all = mmap(nullptr, room(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = static_cast<std::byte*>(all);
    for (std::size_t i = 0; i < chunks_.size(); ++i)
      mmap(memory_ + i * layout.chunk_bytes, layout.chunk_bytes,
           writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, chunks_[i].get(),
           0);
    begin_ = device_->add(memory_, room());
    ++device_->segments;
  }
  ~HostSegment() override {
    --device_->segments;
    device_->remove(begin_);
    munmap(memory_, room());
  }
  HostSegment(const HostSegment&) = delete;
  HostSegment& operator=(const HostSegment&) = delete;

  [[nodiscard]] DeviceLayout layout() const override { return layout_; }
  [[nodiscard]] std::span<std::byte> bytes() const override { return {begin_, layout_.bytes}; }
  [[nodiscard]] bool is_read_only() const override { return is_read_only_; }
  [[nodiscard]] Result<std::vector<Descriptor>> export_chunks() const override {
    std::vector<Descriptor> exported;
    for (const Descriptor& chunk : chunks_)
      exported.emplace_back(fcntl(chunk.get(), F_DUPFD_CLOEXEC, 0));
    return exported;
  }

 private:
  [[nodiscard]] std::uint64_t room() const { return layout_.chunks() * layout_.chunk_bytes; }

  std::shared_ptr<HostDevice> device_;
  DeviceLayout layout_;
  std::vector<Descriptor> chunks_;
  bool is_read_only_;
  std::byte* memory_ = nullptr;
  std::byte* begin_ = nullptr;
};

Result<std::unique_ptr<DeviceSegment>> HostDevice::make_segment(std::uint64_t bytes) {
  if (is_full) return Refusal{"device", "the device is full"};
  const DeviceLayout layout{.bytes = bytes, .chunk_bytes = kChunkBytes};
  std::vector<Descriptor> chunks;
  for (std::uint64_t i = 0; i < layout.chunks(); ++i) {
    chunks.emplace_back(memfd_create("device of a test", MFD_CLOEXEC));
    if (ftruncate(chunks.back().get(), kChunkBytes) != 0) return Refusal{"device", "ftruncate"};
  }
  return std::unique_ptr<DeviceSegment>(std::make_unique<HostSegment>(
      shared_from_this(), layout, std::move(chunks), /*writes=*/true));
}

std::optional<Refusal> HostDevice::find_obstacle(const DeviceId& other) const {
  const auto number = std::to_integer<std::uint8_t>(other[0]);
  if (number == number_ || peers_.contains(number)) return std::nullopt;
  return Refusal{"device", str("device ", int{number_}, " has no access to device ", int{number})};
}

Result<std::unique_ptr<DeviceSegment>> HostDevice::map_segment(std::vector<Descriptor> chunks,
                                                               const DeviceLayout& layout) {
  for (const Descriptor& chunk : chunks) {
    struct stat status {};
    if (fstat(chunk.get(), &status) != 0 ||
        static_cast<std::uint64_t>(status.st_size) != layout.chunk_bytes)
      return Refusal{"device", str("a chunk has ", status.st_size, " bytes")};
  }
  mapped_chunks += static_cast<int>(chunks.size());
  return std::unique_ptr<DeviceSegment>(std::make_unique<HostSegment>(
      shared_from_this(), layout, std::move(chunks), /*writes=*/false));
}

Result<std::byte*> HostDevice::allocate(std::uint64_t bytes) {
  if (is_full) return Refusal{"device", "the device is full"};
  ++allocations;
  return add(new std::byte[bytes], bytes);
}

void HostDevice::free(std::byte* begin) noexcept {
  --allocations;
  delete[] remove(begin);
}

std::optional<Refusal> HostDevice::copy(std::span<const DeviceCopy> copies) {
  if (is_broken) return Refusal{"device", "the device is broken"};
  ++copies_made;
  for (const DeviceCopy& each : copies) {
    std::byte* to = memory_at(each.to);
    const std::byte* from = memory_at(each.from);
    const std::uint64_t half = each.bytes / 2;
    std::memcpy(to, from, half);
    if (within_copy) within_copy();
    std::memcpy(to + half, from + half, each.bytes - half);
  }
  return std::nullopt;
}

std::vector<std::byte> HostDevice::read(std::span<const std::byte> from) {
  const std::byte* memory = memory_at(from.data());
  return {memory, memory + from.size()};
}

void HostDevice::write(std::span<const std::byte> bytes, std::byte* to) {
  std::memcpy(memory_at(to), bytes.data(), bytes.size());
}

std::byte* HostDevice::add(std::byte* memory, std::uint64_t bytes) {
  void* window = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::lock_guard lock(mutex_);
  windows_[static_cast<std::byte*>(window)] = {.memory = memory, .bytes = bytes};
  return static_cast<std::byte*>(window);
}

std::byte* HostDevice::remove(std::byte* begin) {
  const std::lock_guard lock(mutex_);
  const auto window = windows_.extract(begin);
  munmap(begin, window.mapped().bytes);
  return window.mapped().memory;
}

std::byte* HostDevice::memory_at(const std::byte* address) {
  const std::lock_guard lock(mutex_);
  auto window = windows_.upper_bound(address);
  if (window != windows_.begin()) {
    --window;
    const auto offset = static_cast<std::uint64_t>(address - window->first);
    if (offset < window->second.bytes) return window->second.memory + offset;
  }
  return const_cast<std::byte*>(address);  // of the host
}

}  // namespace tributary::memory
