#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/cluster.h"
#include "config/module_graph.h"
#include "plan/staging/sharing_problem.h"

namespace tributary::plan {

/// How a graph of modules is trained on devices that modules may share.
struct SharingSetting {
  std::int64_t devices = 1;
  std::int64_t global_samples = 1;
  std::vector<std::int64_t> tokens = {};  // [modules] of a sample
  std::int64_t units = 10;                // share units of a device
};

/// Times of each module on 1, 2, 4, ... devices with parts of them.
///
/// Samples are whole: the device with the most sets the pace. A module works on its devices by data
/// parallelism, its optimizer sharded over them; gradients are reduced beside backward. A part of a
/// device has that part of its arithmetic and of the work at which products reach half of their
/// rate; host time is not divided. Where the cluster says what the cache gives, the memory is not
/// divided either: a part draws what its units can, and modules side by side slow each other as
/// often as both want it. Else a part has that part of the bandwidth, and nothing slows it. Memory
/// has no limit.
///
/// errors: Fault::kInput naming what cannot be used: devices that are not 2^n, modules that do not
///         stand after those they depend on
[[nodiscard]] SharingProblem sharing_of_model(const config::ModuleGraph& model,
                                              const config::Cluster& cluster,
                                              const SharingSetting& setting);

/// Model FLOPs of a step, forward and gradients.
[[nodiscard]] double sharing_flops(const config::ModuleGraph& model, const config::Cluster& cluster,
                                   const SharingSetting& setting);

}  // namespace tributary::plan
