// A stand-in for libcuda.so.1 on machines without a device: the functions that the pool calls, over
// memory of the host. It refuses what the driver's documents forbid.

#include "tests/memory/transport/cuda/driver_of_host.h"

#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cuda.h>

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;
constexpr int kDevices = 3;

struct Chunk {
  int descriptor = -1;
  std::size_t bytes = 0;
  bool may_be_exported = false;
};

std::mutex mutex;
std::string fails;
bool is_begun = false, is_writable_only = false;
int contexts = 0, streams = 0, pools = 0;
std::uint64_t last_chunk = 0;
std::map<CUmemGenericAllocationHandle, Chunk> chunks;
std::map<CUdeviceptr, std::size_t> addresses, mappings, allocations;
thread_local CUcontext current = nullptr;

/// Begins a call: whether it may go on.
CUresult enter(const char* call, bool needs_context = true) {
  if (fails == call || fails + "_v2" == call) {
    fails.clear();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!is_begun) return CUDA_ERROR_NOT_INITIALIZED;
  return needs_context && current == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

bool is_whole(std::size_t bytes) { return bytes > 0 && bytes % kGranularity == 0; }

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

int live() {
  const std::lock_guard lock(mutex);
  return contexts + streams + pools +
         static_cast<int>(chunks.size() + addresses.size() + mappings.size() + allocations.size());
}
void fail(const char* call) {
  const std::lock_guard lock(mutex);
  fails = call == nullptr ? "" : call;
}
void map_writable_only(int is) { is_writable_only = is != 0; }

}  // namespace

#define BEGIN(...)                                                                              \
  const std::lock_guard lock(mutex);                                                            \
  if (const CUresult begun = enter(__func__ __VA_OPT__(, ) __VA_ARGS__); begun != CUDA_SUCCESS) \
  return begun

extern "C" {

const tributary::memory::DriverOfHost* tributary_driver_of_host() {
  static constexpr tributary::memory::DriverOfHost kControls{live, fail, map_writable_only};
  return &kControls;
}

CUresult cuInit(unsigned) {
  is_begun = true;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "another error";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  BEGIN(false);
  *count = kDevices;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  BEGIN(false);
  *device = ordinal;
  return ordinal >= 0 && ordinal < kDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetUuid(CUuuid* id, CUdevice device) {
  BEGIN(false);
  *id = {};
  id->bytes[0] = static_cast<char>(device + 1);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  BEGIN(false);
  *value = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice one, CUdevice other) {
  BEGIN(false);
  *can = one != kDevices - 1 && other != kDevices - 1 ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  BEGIN(false);
  ++contexts;
  *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  const std::lock_guard lock(mutex);
  --contexts;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  BEGIN(false);
  current = context;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  BEGIN();
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* begin, std::size_t bytes, std::size_t, CUdeviceptr,
                             unsigned long long) {
  BEGIN();
  if (!is_whole(bytes)) return CUDA_ERROR_INVALID_VALUE;
  *begin = reinterpret_cast<CUdeviceptr>(
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  addresses[*begin] = bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr begin, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto mapped = mappings.lower_bound(begin);
  if (mapped != mappings.end() && mapped->first < begin + bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto found = addresses.find(begin);
  if (found == addresses.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  addresses.erase(found);
  munmap(at(begin), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* chunk, std::size_t bytes,
                     const CUmemAllocationProp* what, unsigned long long) {
  BEGIN();
  if (!is_whole(bytes) || what->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  const int descriptor = memfd_create("device of a test", MFD_CLOEXEC);
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool may_be_exported =
      what->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  chunks[*chunk = ++last_chunk] = {descriptor, bytes, may_be_exported};
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle chunk) {
  const std::lock_guard lock(mutex);
  close(chunks.at(chunk).descriptor);
  chunks.erase(chunk);
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr begin, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle chunk, unsigned long long) {
  BEGIN();
  if (offset != 0 || bytes != chunks.at(chunk).bytes) return CUDA_ERROR_INVALID_VALUE;
  mmap(at(begin), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, chunks.at(chunk).descriptor, 0);
  mappings[begin] = bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr begin, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (mappings.at(begin) != bytes) return CUDA_ERROR_INVALID_VALUE;
  mappings.erase(begin);
  mmap(at(begin), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr begin, std::size_t bytes, const CUmemAccessDesc* who,
                        std::size_t) {
  BEGIN();
  const bool writes = who->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (!writes && is_writable_only) return CUDA_ERROR_NOT_SUPPORTED;
  mprotect(at(begin), bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ);
  return CUDA_SUCCESS;
}
CUresult cuMemExportToShareableHandle(void* into, CUmemGenericAllocationHandle chunk,
                                      CUmemAllocationHandleType, unsigned long long) {
  BEGIN();
  if (!chunks.at(chunk).may_be_exported) return CUDA_ERROR_INVALID_VALUE;
  const int copy = dup(chunks.at(chunk).descriptor);
  std::memcpy(into, &copy, sizeof copy);
  return CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* chunk, void* from,
                                        CUmemAllocationHandleType) {
  BEGIN();
  const int descriptor = dup(static_cast<int>(reinterpret_cast<std::uintptr_t>(from)));
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return CUDA_ERROR_INVALID_VALUE;
  chunks[*chunk = ++last_chunk] = {descriptor, static_cast<std::size_t>(status.st_size), false};
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) {
  BEGIN();
  ++pools;
  *pool = reinterpret_cast<CUmemoryPool>(std::uintptr_t{8});
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool) {
  const std::lock_guard lock(mutex);
  --pools;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  BEGIN();
  return CUDA_SUCCESS;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* begin, std::size_t bytes, CUmemoryPool, CUstream) {
  BEGIN();
  *begin = reinterpret_cast<CUdeviceptr>(new char[bytes]);
  allocations[*begin] = bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemFreeAsync(CUdeviceptr begin, CUstream) {
  BEGIN();
  allocations.erase(begin);
  delete[] static_cast<char*>(at(begin));
  return CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  BEGIN();
  std::memcpy(at(to), at(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  BEGIN();
  ++streams;
  *stream = reinterpret_cast<CUstream>(std::uintptr_t{16});
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream) {
  const std::lock_guard lock(mutex);
  --streams;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) {
  BEGIN();
  return CUDA_SUCCESS;
}

}  // extern "C"
