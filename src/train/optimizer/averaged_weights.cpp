#include "train/optimizer/averaged_weights.h"

#include <ATen/ATen.h>

#include "train/checkpoint/unit_parts.h"

namespace tributary::train {

AveragedWeights::AveragedWeights(MasterShards& masters, double decay)
    : masters_(masters), decay_(decay) {
  const at::NoGradGuard no_grad;
  for (const MasterShard& shard : masters_.shards()) averages_.push_back(shard.value.clone());
}

void AveragedWeights::update() {
  for (std::size_t i = 0; i < averages_.size(); ++i)
    averages_[i].lerp_(masters_.shards()[i].value, 1 - decay_);
}

void AveragedWeights::append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                                   std::vector<NamedTensor>& state) const {
  for (std::size_t i = 0; i < averages_.size(); ++i)
    if (masters_.shards()[i].unit == &unit)
      append_parts(unit, parameter, averages_[i], "ema.", state);
}

void AveragedWeights::exchange() {
  const at::NoGradGuard no_grad;
  in_place_ = !in_place_;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const MasterShard& shard = masters_.shards()[i];
    const at::Tensor& value = shard.unit->shard_value();
    if (shard.is_own()) {
      const at::Tensor kept = averages_[i].clone();
      averages_[i].copy_(value);
      value.copy_(kept);
    } else {
      value.copy_(in_place_ ? averages_[i] : shard.value);
    }
    shard.unit->discard();
  }
}

}  // namespace tributary::train
