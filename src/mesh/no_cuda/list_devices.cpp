#include "mesh/device.h"

namespace tributary::mesh {

Devices list_devices() {
  return {.accelerators = {}, .state = "this engine is built without CUDA (preset `cuda` has it)"};
}

bool use_device(int /*index*/) { return false; }

}  // namespace tributary::mesh
