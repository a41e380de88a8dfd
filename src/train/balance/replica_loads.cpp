#include "train/balance/replica_loads.h"

#include "train/balance/flops.h"
#include "train/balance/predict_load.h"

namespace tributary::train {

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

ReplicaLoad imbalance_of(const ReplicaLoad& largest, const ReplicaLoad& sum,
                         std::int64_t replicas) {
  ReplicaLoad imbalance{};
  for (std::size_t i = 0; i < imbalance.size(); ++i)
    if (sum[i] > 0) imbalance[i] = largest[i] * static_cast<double>(replicas) / sum[i];
  return imbalance;
}

}  // namespace tributary::train
