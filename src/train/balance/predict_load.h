#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "schedule/deal_media.h"
#include "schedule/step_plan.h"

namespace tributary::train {

/// Predicts how long each module works on one sample in a training step: its FLOP, recompute
/// included, at 1 TFLOP/s. Balancing compares times, so their scale does not matter.
///
/// units: at least 1 ns where there is work
[[nodiscard]] schedule::SampleLoad predict_load(const config::ModelConfig& model,
                                                const config::ModelSection& section,
                                                const SampleShape& shape);

/// The same for one image or clip: the tower, with the projector that takes its features.
[[nodiscard]] Nanoseconds predict_media(const config::ModelConfig& model,
                                        const config::ModelSection& section, const Grid& grid);

/// predict_media as the cost by which media are dealt. The configurations must outlive it.
/// units: ns
[[nodiscard]] schedule::MediaCost media_cost(const config::ModelConfig& model,
                                             const config::ModelSection& section);

/// What is compared between replicas; the names are those of metrics.jsonl.
inline constexpr std::array<const char*, 6> kLoadNames{"time",   "vision",  "backbone",
                                                       "tokens", "patches", "attention"};

/// Work of one step: predicted times [ns] of all modules, of the vision tower and of the backbone;
/// tokens, patches, and FLOP of attention forward.
using ReplicaLoad = std::array<double, kLoadNames.size()>;

[[nodiscard]] ReplicaLoad load_of(const config::ModelConfig& model,
                                  const config::ModelSection& section,
                                  std::span<const SampleShape> shapes);

/// The work of an encoder on these media.
[[nodiscard]] ReplicaLoad load_of_media(const config::ModelConfig& model,
                                        const config::ModelSection& section,
                                        std::span<const Grid> grids);

/// What one of `ranks` that share a load counts: its part of the time, and all of the rest if it is
/// the one that leads, else nothing.
[[nodiscard]] ReplicaLoad part_of_load(const ReplicaLoad& load, double ranks, bool leads);

/// Over how many parts a step is spread.
struct LoadParts {
  std::int64_t time = 1;      // ranks where an encoder has a mesh of its own, else replicas
  std::int64_t media = 1;     // seats of that encoder, else replicas
  std::int64_t replicas = 1;  // of the backbone
};

/// The largest load of any part / the mean of all, by dimension; 0 where there is none.
[[nodiscard]] ReplicaLoad imbalance_of(const ReplicaLoad& largest, const ReplicaLoad& sum,
                                       const LoadParts& parts);

}  // namespace tributary::train
