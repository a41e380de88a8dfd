#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "train/optimizer/master_shards.h"

namespace tributary::train {

/// The exponential moving average of all trainable parameters: after each update it is `decay`
/// times itself and 1 - `decay` times the parameters. It starts as the parameters.
///
/// dtype: f32, beside the masters; owns: 4 bytes for each parameter of this rank's shards
class AveragedWeights {
 public:
  AveragedWeights(MasterShards& masters, double decay);

  void update();
  /// Names: ema.<parameter>.
  void append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                    std::vector<NamedTensor>& state) const;
  /// Puts the averages into the place of the parameters, or at the second call back.
  void exchange();

 private:
  MasterShards& masters_;
  double decay_;
  std::vector<at::Tensor> averages_;  // f32 [elements], by shard
  bool in_place_ = false;             // of the parameters
};

}  // namespace tributary::train
