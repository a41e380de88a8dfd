#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace tributary::mesh {

/// What this build can compute on.
struct Devices {
  std::vector<std::string> accelerators;  // `cuda:0 NVIDIA H200, 139 GiB, sm_90`
  std::string state;                      // one sentence: libraries found, or why there is none
};

/// Looks for accelerators; on a machine without one that is an answer, not an error.
[[nodiscard]] Devices list_devices();

/// Opens `cpu`, `cuda` or `cuda:N`; `cuda` is the device with the number of this process among
/// those of its machine.
///
/// errors: Fault::kInput for another name; Fault::kResource when the build has no CUDA or the
///         device is not there
[[nodiscard]] c10::Device open_device(const std::string& name, int local_rank = 0);

}  // namespace tributary::mesh
