#include "core/error.h"
#include "core/machine/own_library.h"
#include "memory/transport/cuda/device_memory.h"

namespace tributary::memory {

Result<std::shared_ptr<DeviceMemory>> open_device_memory(int ordinal) {
  using Give = const DeviceLibrary* (*)();
  static const Result<void*> give =
      find_in_own_library("libtributary_cuda_memory.so", "tributary_cuda_memory");
  if (give) return reinterpret_cast<Give>(give.value())()->open(ordinal);
  return Refusal{"device", str("memory: this build has no memory of CUDA devices: ",
                               give.refusal().reason, "; build the preset cuda")};
}

std::shared_ptr<DeviceMemory> require_device_memory(int ordinal) {
  Result<std::shared_ptr<DeviceMemory>> opened = open_device_memory(ordinal);
  TRIB_REQUIRE(opened, .what = "memory: an engine that is asked for does not open",
               .where = "pool.engines", .found = opened.refusal().reason, .expected = "cuda",
               .fix = "do what is said there, or take cuda out of the list");
  return std::move(opened).value();
}

}  // namespace tributary::memory
