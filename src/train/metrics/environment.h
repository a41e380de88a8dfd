#pragma once

#include <map>
#include <string>

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

/// Measures the matrix product that the machine does best: the peak that MFU is a share of.
///
/// units: FLOP/s in f32 with the current number of threads
/// cost:  about 0.3 s
[[nodiscard]] double measure_peak_flops();

}  // namespace tributary::train
