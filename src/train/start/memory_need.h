#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "core/machine/memory_limits.h"
#include "core/units.h"
#include "model/model.h"

namespace tributary::train {

/// Parameters of one module, whatever ranks hold them.
struct ModuleSize {
  std::string name = {};
  std::int64_t parameters = 0;  // tied ones once
  std::int64_t trained = 0;     // of them, or of adapters beside them

  [[nodiscard]] bool trains() const { return trained > 0; }
};

/// What one rank keeps of the model through a whole run.
struct MemoryNeed {
  std::vector<ModuleSize> modules = {};  // in order of the forward pass
  Bytes parameters = {};
  Bytes gradients = {};
  Bytes moments = {};
  Bytes averages = {};     // of optimizer.ema_decay
  Bytes reference = {};    // trained parameters as they were at the start, of objective.kind dpo
  Bytes masters = {};      // float32 parameters beside narrower ones, and their gradients
  Bytes whole = {};        // sharded parameters and gradients that are made whole to compute
  Bytes on_host = {};      // the part of the above that host memory keeps for a CUDA device
  Bytes activations = {};  // of one full microbatch, an estimate; no part of total()
  // A row of each encoder with a mesh of its own: of a patch, or of sound. No part of total().
  std::map<std::string, Bytes> features = {};

  [[nodiscard]] std::int64_t count_parameters() const;
  [[nodiscard]] std::int64_t count_trained() const;
  [[nodiscard]] Bytes total() const {
    return parameters + gradients + moments + averages + reference + masters + whole;
  }
};

/// Counts from the shapes of the model's units, and allocates nothing for them.
///
/// errors: as config::read_model_config and model::make_model
/// cost:   milliseconds
[[nodiscard]] MemoryNeed count_memory(const config::ModelSection& section,
                                      const config::ModelConfig& model,
                                      const model::ModelLayout& layouts,
                                      const config::OptimizerSection& optimizer = {},
                                      bool keeps_start = false);

/// `parameters 14.0 GiB + gradients 14.0 GiB + moments 28.0 GiB = 56.0 GiB`
[[nodiscard]] std::string describe_sum(const MemoryNeed& need);

/// A memory and the part of it that one rank needs.
struct MemoryPlace {
  Bytes needed = {};
  Bytes left = {};  // for one rank
  std::string name = {};
};

/// The tightest memory of the run: that of the host for `local_ranks` ranks on this machine, or
/// that of a CUDA device with `device_left` free bytes (0: the device is the CPU).
[[nodiscard]] MemoryPlace tightest_place(const MemoryNeed& need, Bytes device_left,
                                         const std::vector<MemoryLimit>& limits,
                                         std::int64_t local_ranks);

/// Refuses a run whose total() cannot fit, whatever its batch.
///
/// errors: Fault::kResource with the sum and what there is
void require_memory(const MemoryNeed& need, const MemoryPlace& place);

}  // namespace tributary::train
