#include "train/optimizer/master_shards.h"

#include <ATen/ATen.h>

#include "parallel/unit_chain.h"

namespace tributary::train {

MasterShards::MasterShards(std::span<const std::unique_ptr<parallel::Unit>> units) {
  const at::NoGradGuard no_grad;
  for (const auto& unit : units) {
    if (!unit->trainable()) continue;
    const at::Tensor& value = unit->shard_value();
    const at::Tensor& gradient = unit->shard_gradient();
    const bool on_host =
        unit->layout().chain && unit->layout().chain->options().keep_optimizer_on_host;
    const auto f32 = at::TensorOptions()
                         .dtype(at::kFloat)
                         .device(on_host ? at::Device(at::kCPU) : gradient.device());
    const auto fits = [&](const at::Tensor& tensor) {
      return tensor.scalar_type() == at::kFloat && tensor.device() == f32.device();
    };
    if (!step_count_.defined()) step_count_ = at::zeros({}, f32);
    shards_.push_back({.unit = unit.get(),
                       .value = fits(value) ? value : value.to(f32),
                       .gradient = fits(gradient) ? gradient : at::empty(value.sizes(), f32)});
  }
}

void MasterShards::set_steps(std::int64_t steps) {
  if (step_count_.defined()) step_count_.fill_(static_cast<double>(steps));
}

void MasterShards::take_gradients() {
  for (MasterShard& shard : shards_)
    if (!shard.gradient.is_same(shard.unit->shard_gradient()))
      shard.gradient.copy_(shard.unit->shard_gradient());
}

void MasterShards::publish() {
  for (MasterShard& shard : shards_) {
    if (!shard.is_own()) shard.unit->shard_value().copy_(shard.value);
    shard.unit->discard();
  }
}

}  // namespace tributary::train
