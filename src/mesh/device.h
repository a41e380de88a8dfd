#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace tributary::mesh {

/// What this build can compute on.
struct Devices {
  std::vector<std::string> accelerators;  // `cuda:0 NVIDIA H200, 139 GiB, sm_90`
  std::string state;                      // one sentence: libraries found, or why there is none
};

/// Looks for accelerators and opens none; on a machine without one that is an answer, no error.
[[nodiscard]] Devices list_devices();

/// Makes an accelerator the current device of this thread; returns whether our kernels run on it.
[[nodiscard]] bool use_device(int index);

/// Returns the free memory of an accelerator in bytes; 0 where it cannot be asked.
[[nodiscard]] std::int64_t free_device_bytes(int index);

/// The index that process `local_rank` of a machine takes where `run.device` has none: its own
/// among the `visible` devices, or the only one that its launcher lets it see.
[[nodiscard]] int device_of_process(int local_rank, int visible);

/// Opens `cpu`, `cuda` or `cuda:N` and makes it the current device of this thread; no other device
/// is touched.
///
/// errors: Fault::kInput for another name; Fault::kResource when the build has no CUDA or the
///         device is not there or does not run our kernels
[[nodiscard]] c10::Device open_device(const std::string& name, int local_rank = 0);

}  // namespace tributary::mesh
