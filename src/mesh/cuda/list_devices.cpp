#include <cuda_runtime.h>
#include <nccl.h>

#include "core/text.h"
#include "mesh/device.h"

namespace tributary::mesh {
namespace {

std::string describe_device(int index) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess)
    return str("cuda:", index, " (no properties)");
  return str("cuda:", index, " ", properties.name, ", ", properties.totalGlobalMem >> 30,
             " GiB, sm_", properties.major, properties.minor);
}

std::string describe_libraries() {
  int runtime = 0;
  int nccl = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  (void)ncclGetVersion(&nccl);
  return str("CUDA runtime ", runtime / 1000, ".", runtime % 1000 / 10, ", NCCL ", nccl / 10000,
             ".", nccl % 10000 / 100, ".", nccl % 100);
}

}  // namespace

Devices list_devices() {
  Devices devices{.accelerators = {}, .state = describe_libraries()};
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    devices.state += str("; no device is present (",
                         status == cudaSuccess ? "0 devices" : cudaGetErrorString(status), ")");
    return devices;
  }
  for (int index = 0; index < count; ++index)
    devices.accelerators.push_back(describe_device(index));
  return devices;
}

std::int64_t free_device_bytes(int index) {
  std::size_t free = 0;
  std::size_t all = 0;
  const bool known =
      cudaSetDevice(index) == cudaSuccess && cudaMemGetInfo(&free, &all) == cudaSuccess;
  return known ? static_cast<std::int64_t>(free) : 0;
}

}  // namespace tributary::mesh
