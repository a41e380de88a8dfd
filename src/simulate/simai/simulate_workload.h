#pragma once

#include "config/trace/trace.h"
#include "simulate/simai/simai_workload.h"
#include "simulate/simulate.h"

namespace tributary::simulate {

/// Simulates steps of a workload like those of a plan; options.samples is ignored. Memory and FLOPs
/// of the result are unknown, and 0.
///
/// errors: Fault::kInput as WorkloadCosts and simulate()
[[nodiscard]] Simulation simulate_workload(const SimaiWorkload& workload,
                                           const config::Cluster& cluster,
                                           SimulationOptions options = {});

/// The trace of the shown step; memory and MFU are marked as unknown.
[[nodiscard]] config::Trace trace_of_workload(const Simulation& simulation,
                                              const SimaiWorkload& workload,
                                              const std::string& cluster);

}  // namespace tributary::simulate
