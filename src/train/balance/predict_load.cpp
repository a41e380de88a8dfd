#include "train/balance/predict_load.h"

#include <algorithm>
#include <cmath>

#include "train/balance/flops.h"

namespace tributary::train {
namespace {

constexpr double kNanosecondsPerFlop = 1e-3;

// Places in a ReplicaLoad, as kLoadNames has them.
constexpr std::size_t kTime = 0, kVision = 1, kPatches = 4;

Nanoseconds time_of(double flops) {
  if (flops <= 0) return {};
  return {std::max<std::int64_t>(1, std::llround(flops * kNanosecondsPerFlop))};
}

}  // namespace

schedule::SampleLoad predict_load(const config::ModelConfig& model,
                                  const config::ModelSection& section, const SampleShape& shape) {
  const ForwardFlops whole = count_forward(model, shape);
  ForwardFlops vision = whole;
  vision.backbone_linear = vision.backbone_mlp = vision.backbone_attention = vision.head = 0;
  const auto run_again = config::run_again(section.recompute, section.offload);
  const double all = count_training(whole, section.freeze, run_again).hardware;
  const double of_vision = count_training(vision, section.freeze, run_again).hardware;
  return {
      .tokens = shape.tokens, .vision = time_of(of_vision), .backbone = time_of(all - of_vision)};
}

Nanoseconds predict_media(const config::ModelConfig& model, const config::ModelSection& section,
                          const Grid& grid) {
  SampleShape alone;
  alone.images = {grid};
  return predict_load(model, section, alone).vision;
}

schedule::MediaCost media_cost(const config::ModelConfig& model,
                               const config::ModelSection& section) {
  return [&](const Grid& grid) { return predict_media(model, section, grid).count; };
}

ReplicaLoad load_of(const config::ModelConfig& model, const config::ModelSection& section,
                    std::span<const SampleShape> shapes) {
  ReplicaLoad load{};
  for (const SampleShape& shape : shapes) {
    const schedule::SampleLoad predicted = predict_load(model, section, shape);
    const ForwardFlops flops = count_forward(model, shape);
    std::int64_t patches = 0;
    for (const Grid& grid : shape.images) patches += grid.patches();
    for (const Grid& grid : shape.videos) patches += grid.patches();
    const ReplicaLoad added{static_cast<double>(predicted.sum().count),
                            static_cast<double>(predicted.vision.count),
                            static_cast<double>(predicted.backbone.count),
                            static_cast<double>(shape.tokens.count),
                            static_cast<double>(patches),
                            flops.vision_attention + flops.backbone_attention / 2};
    for (std::size_t i = 0; i < load.size(); ++i) load[i] += added[i];
  }
  return load;
}

ReplicaLoad load_of_media(const config::ModelConfig& model, const config::ModelSection& section,
                          std::span<const Grid> grids) {
  ReplicaLoad load{};
  for (const Grid& grid : grids) {
    load[kVision] += static_cast<double>(predict_media(model, section, grid).count);
    load[kPatches] += static_cast<double>(grid.patches());
  }
  load[kTime] = load[kVision];
  return load;
}

ReplicaLoad part_of_load(const ReplicaLoad& load, double ranks, bool leads) {
  ReplicaLoad part = leads ? load : ReplicaLoad{};
  part[kTime] = load[kTime] / ranks;
  return part;
}

ReplicaLoad imbalance_of(const ReplicaLoad& largest, const ReplicaLoad& sum,
                         const LoadParts& parts) {
  ReplicaLoad imbalance{};
  for (std::size_t i = 0; i < imbalance.size(); ++i) {
    std::int64_t count = parts.replicas;
    if (i == kTime) count = parts.time;
    if (i == kVision || i == kPatches) count = parts.media;
    if (sum[i] > 0) imbalance[i] = largest[i] * static_cast<double>(count) / sum[i];
  }
  return imbalance;
}

}  // namespace tributary::train
