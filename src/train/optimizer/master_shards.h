#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/unit.h"
#include "train/checkpoint/checkpoint.h"

namespace tributary::train {

/// The shard of one trainable unit as optimizers work on it.
struct MasterShard {
  parallel::Unit* unit = nullptr;
  at::Tensor value;     // f32 [elements of the shard]; the unit's own when it is f32
  at::Tensor gradient;  // f32 [elements]; likewise

  /// Whether the value is no more than a view of the unit's.
  [[nodiscard]] bool is_own() const { return value.is_same(unit->shard_value()); }
};

/// This rank's shards of all trainable units in f32, where the optimizer keeps its state: on the
/// device, or on the host.
class MasterShards {
 public:
  explicit MasterShards(std::span<const std::unique_ptr<parallel::Unit>> units);

  [[nodiscard]] std::span<const MasterShard> shards() const { return shards_; }
  /// f32 scalar: the updates so far, as fused kernels read it; undefined without shards.
  [[nodiscard]] const at::Tensor& step_count() const { return step_count_; }
  void set_steps(std::int64_t steps);
  /// Widens the gradients that are narrower.
  void take_gradients();
  /// Rounds the masters into the values and forgets gathered copies of them.
  void publish();

 private:
  std::vector<MasterShard> shards_;
  at::Tensor step_count_;
};

}  // namespace tributary::train
