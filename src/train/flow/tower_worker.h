#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "data/sample.h"
#include "memory/progress/pool_producer.h"
#include "train/flow/tower_objects.h"

namespace tributary::train {

/// A tower that trains, in an encoder beside the run. It has nothing of its own: weights come with
/// each step, and a gradient that was not fetched is made again by whoever is asked.
class TowerWorker {
 public:
  using Load = std::function<data::EncodedSample(std::int64_t sample)>;

  /// `global_samples`: of a step. The other arguments outlive this.
  TowerWorker(model::Model& model, const FlowModule& module, memory::PoolProducer& producer,
              Load load, std::int64_t piece_bytes, std::int64_t global_samples);

  /// Whether the weights of the step are here; asks for them where they are not.
  [[nodiscard]] bool has_weights(std::uint64_t step);
  /// Encodes a sample of the step whose weights are here, and keeps the graph.
  ///
  /// shape: returns [features, feature_width] on the host
  [[nodiscard]] at::Tensor encode(const data::EncodedSample& sample);
  /// Takes the task to make a piece of the gradient by a group.
  void take(memory::PoolProducer::Task task);
  /// Makes the gradient by one group. False: the gradients of no group's features are here.
  [[nodiscard]] bool make_gradient();
  /// Drops what belongs to earlier steps.
  void forget_before(std::uint64_t step);

 private:
  /// The tasks of a group, by its first sample.
  struct Group {
    std::uint64_t step = 0;
    std::vector<memory::PoolProducer::Task> tasks = {};
    std::optional<memory::PoolObject> given = {};  // the gradients of its features
  };
  struct Kept {
    std::uint32_t mark = 0;
    at::Tensor features = {};  // with their graph
  };

  [[nodiscard]] at::Tensor gradient_by(const memory::PoolObject& group);
  void give(Group& group, const at::Tensor& gradient);

  model::Model& model_;
  const FlowModule& module_;
  memory::PoolProducer& producer_;
  Load load_;
  std::int64_t global_samples_;
  FlatTower tower_;
  Pieces values_, gradient_;
  std::optional<std::uint64_t> step_;       // of the weights
  std::vector<memory::PoolObject> coming_;  // pieces of the next ones
  std::optional<std::uint64_t> coming_step_;
  std::map<std::int64_t, Kept> kept_;  // by sample, of the step
  std::map<std::int64_t, Group> groups_;
};

}  // namespace tributary::train
