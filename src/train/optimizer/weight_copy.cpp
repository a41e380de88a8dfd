#include "train/optimizer/weight_copy.h"

#include <utility>

#include <ATen/ATen.h>

#include "train/checkpoint/unit_parts.h"

namespace tributary::train {

WeightCopy::WeightCopy(MasterShards& masters, std::string name, Values values)
    : masters_(masters), name_(std::move(name)) {
  const at::NoGradGuard no_grad;
  for (const MasterShard& shard : masters_.shards()) {
    const at::ScalarType dtype =
        values == Values::kWide ? at::kFloat : shard.unit->shard_value().scalar_type();
    values_.push_back(shard.value.to(dtype, /*non_blocking=*/false, /*copy=*/true));
  }
}

void WeightCopy::move_to_parameters(double share) {
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i].lerp_(masters_.shards()[i].value, share);
}

void WeightCopy::append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                              std::vector<NamedTensor>& state) const {
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (masters_.shards()[i].unit == &unit)
      append_parts(unit, parameter, values_[i], name_ + ".", state);
}

void WeightCopy::exchange() {
  const at::NoGradGuard no_grad;
  in_place_ = !in_place_;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const MasterShard& shard = masters_.shards()[i];
    const at::Tensor& value = shard.unit->shard_value();
    if (values_[i].scalar_type() == value.scalar_type()) {
      const at::Tensor kept = values_[i].clone();
      values_[i].copy_(value);
      value.copy_(kept);
    } else {
      value.copy_(in_place_ ? values_[i] : shard.value);
    }
    shard.unit->discard();
  }
}

}  // namespace tributary::train
