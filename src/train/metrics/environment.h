#pragma once

#include <map>
#include <string>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "core/json.h"

namespace tributary::train {

/// Describes program, libraries and machine, for environment.json.
///
/// units: `device` as run.device; `command` as it was typed
[[nodiscard]] Json describe_environment(const std::string& device, const std::string& command);

/// The processor of this machine: AMD EPYC 7B13.
[[nodiscard]] std::string describe_cpu();

/// The variables of the environment that change how a run computes, and are set: those of OpenMP,
/// MKL, OpenBLAS, PyTorch, CUDA, NCCL, UCX, the loader and allocator of libc, and our own.
[[nodiscard]] std::map<std::string, std::string> list_behaviour_variables();

/// A peak that was measured, and how.
struct PeakFlops {
  double per_second = 0;
  std::string how;  // fastest of 8 ...
};

/// Measures the matrix product that the device does best: the peak that MFU is a share of.
///
/// dtype:  that of the model's parameters
/// units:  on a CPU with the current number of threads
/// stream: the host waits
/// cost:   about 0.3 s
[[nodiscard]] PeakFlops measure_peak_flops(c10::Device device, c10::ScalarType dtype);

}  // namespace tributary::train
