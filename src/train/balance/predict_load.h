#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "schedule/step_plan.h"

namespace tributary::train {

/// Predicts how long each module works on one sample in a training step: its FLOP, recompute
/// included, at 1 TFLOP/s. Balancing compares times, so their scale does not matter.
///
/// units: at least 1 ns where there is work
[[nodiscard]] schedule::SampleLoad predict_load(const config::ModelConfig& model,
                                                const config::ModelSection& section,
                                                const SampleShape& shape);

/// What is compared between replicas; the names are those of metrics.jsonl.
inline constexpr std::array<const char*, 6> kLoadNames{"time",   "vision",  "backbone",
                                                       "tokens", "patches", "attention"};

/// A replica's work of one step: predicted times [ns] of all modules, of the vision tower and of
/// the backbone; tokens, patches, and FLOP of attention forward.
using ReplicaLoad = std::array<double, kLoadNames.size()>;

[[nodiscard]] ReplicaLoad load_of(const config::ModelConfig& model,
                                  const config::ModelSection& section,
                                  std::span<const SampleShape> shapes);

/// The largest load of any replica / the mean of all, by dimension; 0 where there is none.
[[nodiscard]] ReplicaLoad imbalance_of(const ReplicaLoad& largest, const ReplicaLoad& sum,
                                       std::int64_t replicas);

}  // namespace tributary::train
