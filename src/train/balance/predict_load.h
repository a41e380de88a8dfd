#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "schedule/deal_media.h"
#include "schedule/step_plan.h"

namespace tributary::train {

class MeasuredTimes;

/// Predicts how long each chain of a model (config::chains_of) works on one sample in a training
/// step: by `times` where there are some, else its FLOP, recompute included, at 1 TFLOP/s.
/// Balancing compares times, so their scale does not matter.
///
/// units: at least 1 ns where there is work
[[nodiscard]] schedule::SampleLoad predict_load(const config::ModelConfig& model,
                                                const config::ModelSection& section,
                                                const SampleShape& shape,
                                                const MeasuredTimes* times = nullptr);

/// The same for one item of the chain of `encoder`.
[[nodiscard]] Nanoseconds predict_media(const config::ModelConfig& model,
                                        const config::ModelSection& section,
                                        const std::string& encoder, const Grid& grid,
                                        const MeasuredTimes* times = nullptr);

/// predict_media as the cost by which media are dealt. All that it is given must outlive it.
/// units: ns
[[nodiscard]] schedule::MediaCost media_cost(const config::ModelConfig& model,
                                             const config::ModelSection& section,
                                             const std::string& encoder,
                                             const MeasuredTimes* times = nullptr);

/// What is compared between ranks: predicted times [ns] of all modules and of each chain, the rows
/// of each chain, and FLOP of attention forward.
struct WorkLoad {
  double time = 0;
  double attention = 0;
  std::vector<double> chain_times = {};  // [chains of the model]
  std::vector<double> chain_rows = {};

  explicit WorkLoad(std::size_t chains = 0) : chain_times(chains), chain_rows(chains) {}
  WorkLoad& operator+=(const WorkLoad& other);
  /// All of its numbers, in one order.
  [[nodiscard]] std::vector<double*> numbers();
  friend bool operator==(const WorkLoad&, const WorkLoad&) = default;
};

[[nodiscard]] WorkLoad load_of(const config::ModelConfig& model,
                               const config::ModelSection& section,
                               std::span<const SampleShape> shapes,
                               const MeasuredTimes* times = nullptr);

/// The work of the chain of an encoder on these media.
[[nodiscard]] WorkLoad load_of_media(const config::ModelConfig& model,
                                     const config::ModelSection& section,
                                     const std::string& encoder, std::span<const Grid> grids,
                                     const MeasuredTimes* times = nullptr);

/// What one of `ranks` that share a load counts: its part of the time, and all of the rest if it is
/// the one that leads, else nothing.
[[nodiscard]] WorkLoad part_of_load(const WorkLoad& load, double ranks, bool leads);

/// Over how many parts a step is spread.
struct LoadParts {
  std::int64_t time = 1;                  // ranks where an encoder has its own mesh, else replicas
  std::vector<std::int64_t> chains = {};  // seats of an encoder with its own mesh, else replicas
};

/// The largest load of any part / the mean of all, in one dimension.
struct Imbalance {
  std::string name;  // in metrics.jsonl: time, those of chains and of their rows, attention
  double ratio = 0;

  friend bool operator==(const Imbalance&, const Imbalance&) = default;
};

/// The dimensions in which there is a load.
[[nodiscard]] std::vector<Imbalance> imbalance_of(const config::ModelConfig& model,
                                                  const WorkLoad& largest, const WorkLoad& sum,
                                                  const LoadParts& parts);

}  // namespace tributary::train
