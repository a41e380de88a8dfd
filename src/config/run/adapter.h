#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/run/run_config.h"

namespace tributary::config {

/// The target that stands for every linear map but the head.
inline constexpr std::string_view kAllLinear = "all-linear";

/// A linear map of a model that can have an adapter.
struct LinearMap {
  std::string module;
  std::string name;  // of its parameters in released checkpoints, without `.weight`
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// What the product B A is multiplied by.
/// source: Hu 2021, "LoRA", section 4.1; Kalajdzievski 2023, "A rank stabilization scaling factor"
[[nodiscard]] double adapter_scale(const AdapterSection& adapter);

/// Whether a map of a module has an adapter: a target names it and the module is not frozen.
[[nodiscard]] bool has_adapter(const ModelSection& model, std::string_view module,
                               std::string_view name);

/// Checks the targets against the maps of the model, and freezes the modules without an adapter, so
/// that no gradient is computed for them.
///
/// errors: Fault::kInput for a target that names no map, with the nearest name, and when no map is
///         left
[[nodiscard]] ModelSection freeze_without_adapter(ModelSection model,
                                                  std::span<const LinearMap> maps);

/// By module: weights of adapters for each weight of its linear maps, for FLOPs.
[[nodiscard]] std::map<std::string, double> adapter_shares(const ModelSection& model,
                                                           std::span<const LinearMap> maps);

/// `lora, rank 8, alpha 16, on q_proj, v_proj`
[[nodiscard]] std::string describe_adapter(const AdapterSection& adapter);

}  // namespace tributary::config
