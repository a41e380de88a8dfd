#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"
#include "plan/sharing/sharing_problem.h"

namespace tributary::studies {

/// How a graph of modules is trained on devices that modules may share.
struct SharingSetting {
  std::string name = {};  // for messages
  std::int64_t devices = 1;
  std::int64_t global_samples = 1;
  std::vector<std::int64_t> tokens = {};  // [modules] for each sample
  std::int64_t units = 10;                // share units of a device
  std::vector<std::string> frozen = {};   // modules that do not train
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
  std::optional<Bytes> memory = {};  // of a device; null: the cluster's, after its reserve
};

/// Times of each module on 1, 2, 4, ... devices with parts of them.
///
/// Samples are not divided, so the device with the most sets the pace. A module is data parallel on
/// its devices, with its optimizer sharded over them; gradients are reduced beside backward.
/// docs/guides/cost_model.md, "Formulas", says what a part of a device takes, and how modules side
/// by side slow each other. Every device of a module holds its weights and gradients; these, and
/// what backward reads, stay there while other stages run. A part of a device holds everything that
/// its module has there.
///
/// errors: Fault::kInput naming what cannot be used: devices that are not 2^n, modules that are not
///         after those they depend on
[[nodiscard]] plan::SharingProblem sharing_of_model(const config::ModuleGraph& model,
                                                    const config::Cluster& cluster,
                                                    const SharingSetting& setting);

/// Model FLOPs of a step, forward and gradients.
[[nodiscard]] double sharing_flops(const config::ModuleGraph& model, const config::Cluster& cluster,
                                   const SharingSetting& setting);

}  // namespace tributary::studies
