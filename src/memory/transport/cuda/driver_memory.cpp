// The memory of a CUDA device by the driver's virtual memory management. Built where the toolkit
// is, as a library beside the program.

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <utility>

#include "core/text.h"
#include "memory/transport/cuda/device_memory.h"
#include "memory/transport/cuda/driver.h"

namespace tributary::memory {
namespace {

constexpr std::uint64_t kKept = std::uint64_t{256} << 20;  // free memory that the process keeps

CUdeviceptr address_of(const std::byte* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
std::byte* pointer_to(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

class DriverMemory final : public DeviceMemory, public std::enable_shared_from_this<DriverMemory> {
 public:
  explicit DriverMemory(const Driver& driver) : driver_(driver) {}
  DriverMemory(const DriverMemory&) = delete;
  DriverMemory& operator=(const DriverMemory&) = delete;
  ~DriverMemory() override;

  [[nodiscard]] std::optional<Refusal> open(int ordinal);

  [[nodiscard]] DeviceId id() const override { return id_; }
  [[nodiscard]] Result<std::unique_ptr<DeviceSegment>> make_segment(std::uint64_t bytes) override;
  [[nodiscard]] std::optional<Refusal> find_obstacle(const DeviceId& other) const override;
  [[nodiscard]] Result<std::unique_ptr<DeviceSegment>> map_segment(
      std::vector<Descriptor> chunks, const DeviceLayout& layout) override;
  [[nodiscard]] Result<std::byte*> allocate(std::uint64_t bytes) override;
  void free(std::byte* begin) noexcept override;
  [[nodiscard]] std::optional<Refusal> copy(std::span<const DeviceCopy> copies) override;

  [[nodiscard]] const Driver& driver() const { return driver_; }
  [[nodiscard]] CUmemLocation location() const {
    return {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_};
  }
  /// Makes this device the one of the calling thread. A process has one device, and torch has the
  /// same context of it.
  [[nodiscard]] std::optional<Refusal> enter() const {
    return check("cuCtxSetCurrent", driver_.cuCtxSetCurrent(context_));
  }
  [[nodiscard]] std::optional<Refusal> check(const char* call, CUresult result) const {
    if (result == CUDA_SUCCESS) return std::nullopt;
    return refuse_call(driver_, call, result);
  }

 private:
  [[nodiscard]] std::optional<Refusal> require_abilities() const;
  [[nodiscard]] CUmemAllocationProp shared_memory() const {
    return {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            .location = location(),
            .win32HandleMetaData = nullptr,
            .allocFlags = {}};
  }

  const Driver& driver_;
  DeviceId id_{};
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  CUstream stream_ = nullptr;  // of all copies
  std::uint64_t granularity_ = 0;
};

/// Chunks at consecutive addresses. Each step of its making is undone at its end.
class DriverSegment final : public DeviceSegment {
 public:
  DriverSegment(std::shared_ptr<DriverMemory> device, const DeviceLayout& layout)
      : device_(std::move(device)), layout_(layout) {}
  DriverSegment(const DriverSegment&) = delete;
  DriverSegment& operator=(const DriverSegment&) = delete;
  ~DriverSegment() override;

  /// Gives the next chunk.
  using NextChunk = std::function<CUresult(std::size_t chunk, CUmemGenericAllocationHandle* into)>;
  [[nodiscard]] std::optional<Refusal> fill(const char* call, const NextChunk& next);
  [[nodiscard]] std::optional<Refusal> let_write();
  /// Read-only where the driver knows that for memory of a device.
  [[nodiscard]] std::optional<Refusal> let_read();

  [[nodiscard]] DeviceLayout layout() const override { return layout_; }
  [[nodiscard]] std::span<std::byte> bytes() const override {
    return {pointer_to(begin_), layout_.bytes};
  }
  [[nodiscard]] bool is_read_only() const override { return is_read_only_; }
  [[nodiscard]] Result<std::vector<Descriptor>> export_chunks() const override;

 private:
  [[nodiscard]] std::size_t room() const { return layout_.chunks() * layout_.chunk_bytes; }
  [[nodiscard]] CUresult allow(CUmemAccess_flags access) const {
    const CUmemAccessDesc who{.location = device_->location(), .flags = access};
    return device_->driver().cuMemSetAccess(begin_, room(), &who, 1);
  }

  std::shared_ptr<DriverMemory> device_;
  DeviceLayout layout_;
  CUdeviceptr begin_ = 0;
  std::vector<CUmemGenericAllocationHandle> chunks_;
  std::size_t mapped_ = 0;  // chunks that have an address
  bool is_read_only_ = false;
};

DriverSegment::~DriverSegment() {
  const Driver& driver = device_->driver();
  (void)device_->enter();
  for (std::size_t i = 0; i < mapped_; ++i)
    driver.cuMemUnmap(begin_ + i * layout_.chunk_bytes, layout_.chunk_bytes);
  for (const CUmemGenericAllocationHandle chunk : chunks_) driver.cuMemRelease(chunk);
  if (begin_ != 0) driver.cuMemAddressFree(begin_, room());
}

std::optional<Refusal> DriverSegment::fill(const char* call, const NextChunk& next) {
  const Driver& driver = device_->driver();
  if (auto fault = device_->enter()) return fault;
  if (auto fault = device_->check("cuMemAddressReserve",
                                  driver.cuMemAddressReserve(&begin_, room(), 0, 0, 0)))
    return fault;
  for (std::size_t i = 0; i < layout_.chunks(); ++i) {
    CUmemGenericAllocationHandle chunk = 0;
    if (auto fault = device_->check(call, next(i, &chunk))) return fault;
    chunks_.push_back(chunk);
    if (auto fault = device_->check("cuMemMap", driver.cuMemMap(begin_ + i * layout_.chunk_bytes,
                                                                layout_.chunk_bytes, 0, chunk, 0)))
      return fault;
    ++mapped_;
  }
  return std::nullopt;
}

std::optional<Refusal> DriverSegment::let_write() {
  return device_->check("cuMemSetAccess", allow(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

std::optional<Refusal> DriverSegment::let_read() {
  is_read_only_ = allow(CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_SUCCESS;
  return is_read_only_ ? std::nullopt : let_write();
}

Result<std::vector<Descriptor>> DriverSegment::export_chunks() const {
  std::vector<Descriptor> exported;
  if (auto fault = device_->enter()) return *std::move(fault);
  for (const CUmemGenericAllocationHandle chunk : chunks_) {
    int descriptor = -1;
    if (auto fault =
            device_->check("cuMemExportToShareableHandle",
                           device_->driver().cuMemExportToShareableHandle(
                               &descriptor, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
      return *std::move(fault);
    exported.emplace_back(descriptor);
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
  return exported;
}

DriverMemory::~DriverMemory() {
  if (context_ == nullptr) return;
  (void)enter();
  if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
  if (pool_ != nullptr) driver_.cuMemPoolDestroy(pool_);
  driver_.cuDevicePrimaryCtxRelease(device_);
}

std::optional<Refusal> DriverMemory::require_abilities() const {
  for (const auto& [attribute, what] :
       {std::pair{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory"},
        std::pair{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                  "memory that processes share by descriptors"},
        std::pair{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory in the order of streams"}}) {
    int has = 0;
    if (auto fault =
            check("cuDeviceGetAttribute", driver_.cuDeviceGetAttribute(&has, attribute, device_)))
      return fault;
    if (has == 0) return Refusal{"device", str("memory: the device does not know ", what)};
  }
  return std::nullopt;
}

std::optional<Refusal> DriverMemory::open(int ordinal) {
  CUuuid id = {};
  CUmemPoolProps pool = {};
  cuuint64_t kept = kKept;
  if (auto fault = check("cuDeviceGet", driver_.cuDeviceGet(&device_, ordinal))) return fault;
  if (auto fault = require_abilities()) return fault;
  if (auto fault = check("cuDeviceGetUuid", driver_.cuDeviceGetUuid(&id, device_))) return fault;
  std::memcpy(id_.data(), id.bytes, id_.size());
  if (auto fault =
          check("cuDevicePrimaryCtxRetain", driver_.cuDevicePrimaryCtxRetain(&context_, device_)))
    return fault;
  if (auto fault = enter()) return fault;
  const CUmemAllocationProp shared = shared_memory();
  if (auto fault = check("cuMemGetAllocationGranularity",
                         driver_.cuMemGetAllocationGranularity(
                             &granularity_, &shared, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)))
    return fault;
  pool.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  pool.location = location();
  if (auto fault = check("cuMemPoolCreate", driver_.cuMemPoolCreate(&pool_, &pool))) return fault;
  if (auto fault =
          check("cuMemPoolSetAttribute",
                driver_.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept)))
    return fault;
  // Else an allocation may wait for what torch has queued, to use what was freed behind it.
  int none = 0;
  if (auto fault = check("cuMemPoolSetAttribute",
                         driver_.cuMemPoolSetAttribute(
                             pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &none)))
    return fault;
  return check("cuStreamCreate", driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
}

Result<std::unique_ptr<DeviceSegment>> DriverMemory::make_segment(std::uint64_t bytes) {
  const CUmemAllocationProp shared = shared_memory();
  const DeviceLayout layout = lay_out_chunks(bytes, granularity_);
  auto segment = std::make_unique<DriverSegment>(shared_from_this(), layout);
  const auto create = [&](std::size_t, CUmemGenericAllocationHandle* into) {
    return driver_.cuMemCreate(into, layout.chunk_bytes, &shared, 0);
  };
  if (auto fault = segment->fill("cuMemCreate", create)) return *std::move(fault);
  if (auto fault = segment->let_write()) return *std::move(fault);
  return std::unique_ptr<DeviceSegment>(std::move(segment));
}

std::optional<Refusal> DriverMemory::find_obstacle(const DeviceId& other) const {
  if (other == id_) return std::nullopt;
  int count = 0;
  if (auto fault = check("cuDeviceGetCount", driver_.cuDeviceGetCount(&count))) return fault;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    CUuuid id = {};
    if (driver_.cuDeviceGet(&device, i) != CUDA_SUCCESS ||
        driver_.cuDeviceGetUuid(&id, device) != CUDA_SUCCESS ||
        std::memcmp(id.bytes, other.data(), other.size()) != 0)
      continue;
    int can = 0;
    if (auto fault =
            check("cuDeviceCanAccessPeer", driver_.cuDeviceCanAccessPeer(&can, device_, device)))
      return fault;
    if (can != 0) return std::nullopt;
    return Refusal{"device", str("memory: this device has no peer access to device ", i)};
  }
  return Refusal{"device", str("memory: the owner's device is none of the ", count,
                               " that this process sees")};
}

Result<std::unique_ptr<DeviceSegment>> DriverMemory::map_segment(std::vector<Descriptor> chunks,
                                                                 const DeviceLayout& layout) {
  if (layout.chunk_bytes == 0 || layout.chunk_bytes % granularity_ != 0 ||
      layout.chunks() != chunks.size())
    return Refusal{"device", str("memory: ", chunks.size(), " chunks of ", layout.chunk_bytes,
                                 " B do not make ", layout.bytes, " B of device memory")};
  auto segment = std::make_unique<DriverSegment>(shared_from_this(), layout);
  const auto import = [&](std::size_t i, CUmemGenericAllocationHandle* into) {
    const auto descriptor = static_cast<std::uintptr_t>(chunks[i].get());
    return driver_.cuMemImportFromShareableHandle(into, reinterpret_cast<void*>(descriptor),
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  };
  if (auto fault = segment->fill("cuMemImportFromShareableHandle", import))
    return *std::move(fault);
  if (auto fault = segment->let_read()) return *std::move(fault);
  return std::unique_ptr<DeviceSegment>(std::move(segment));
}

Result<std::byte*> DriverMemory::allocate(std::uint64_t bytes) {
  CUdeviceptr begin = 0;
  if (auto fault = enter()) return *std::move(fault);
  if (auto fault = check("cuMemAllocFromPoolAsync",
                         driver_.cuMemAllocFromPoolAsync(&begin, bytes, pool_, stream_)))
    return *std::move(fault);
  return pointer_to(begin);
}

void DriverMemory::free(std::byte* begin) noexcept {
  (void)enter();
  driver_.cuMemFreeAsync(address_of(begin), CU_STREAM_LEGACY);
}

std::optional<Refusal> DriverMemory::copy(std::span<const DeviceCopy> copies) {
  if (auto fault = enter()) return fault;
  std::optional<Refusal> failed;
  for (const DeviceCopy& each : copies)
    if (!failed)
      failed = check(
          "cuMemcpyAsync",
          driver_.cuMemcpyAsync(address_of(each.to), address_of(each.from), each.bytes, stream_));
  // Also after a failure: copies before it may be under way.
  const CUresult ended = driver_.cuStreamSynchronize(stream_);
  return failed ? failed : check("cuStreamSynchronize", ended);
}

Result<std::shared_ptr<DeviceMemory>> open_driver_memory(int ordinal) {
  const Result<const Driver*> driver = load_driver();
  if (!driver) return driver.refusal();
  const auto opened = std::make_shared<DriverMemory>(*driver.value());
  if (auto fault = opened->open(ordinal)) return *std::move(fault);
  return std::shared_ptr<DeviceMemory>(opened);
}

}  // namespace
}  // namespace tributary::memory

extern "C" const tributary::memory::DeviceLibrary* tributary_cuda_memory() {
  static constexpr tributary::memory::DeviceLibrary kLibrary{
      .open = tributary::memory::open_driver_memory};
  return &kLibrary;
}
