#pragma once

#include <string>
#include <vector>

#include "config/plan/plan.h"

// The names of enumerations in plan.json, by value.
namespace tributary::config {

template <class Enum>
const std::vector<std::string>& plan_names_of();

#define TRIB_PLAN_NAMES(Enum, ...)                               \
  template <>                                                    \
  inline const std::vector<std::string>& plan_names_of<Enum>() { \
    static const std::vector<std::string> names{__VA_ARGS__};    \
    return names;                                                \
  }

TRIB_PLAN_NAMES(Placement, "inline", "colocated", "separate", "flow", "sliced")
TRIB_PLAN_NAMES(RecomputePlan, "none", "selective", "full", "attention")
TRIB_PLAN_NAMES(TrainMode, "full", "lora", "frozen")
TRIB_PLAN_NAMES(OptimizerKind, "adamw", "muon", "adamw_8bit")
TRIB_PLAN_NAMES(AdapterKind, "none", "lora", "dora")
TRIB_PLAN_NAMES(EdgeVia, "exchange", "pool")
TRIB_PLAN_NAMES(Balance, "none", "lpt", "lpt_2d")
TRIB_PLAN_NAMES(PlannedSamples, "unknown", "equal", "mixture", "recorded")
TRIB_PLAN_NAMES(Packing, "none", "online_best_fit", "best_fit_decreasing", "level")
TRIB_PLAN_NAMES(Offload, "none", "optimizer", "parameters")
TRIB_PLAN_NAMES(FeatureMemory, "device", "host")
TRIB_PLAN_NAMES(PipelineOrder, "gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "v_half", "v_min")

#undef TRIB_PLAN_NAMES

template <class Enum>
const std::string& plan_name_of(Enum value) {
  return plan_names_of<Enum>()[static_cast<std::size_t>(value)];
}

}  // namespace tributary::config
