#include "mesh/device.h"

namespace tributary::mesh {

Devices list_devices() {
  return {.accelerators = {}, .state = "this engine is built without CUDA (preset `cuda` has it)"};
}

bool use_device(int /*index*/) { return false; }

std::int64_t free_device_bytes(int /*index*/) { return 0; }

}  // namespace tributary::mesh
