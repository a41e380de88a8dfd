#include "train/balance/flops.h"

#include <algorithm>
#include <string>
#include <utility>

#include "config/family/known_modules.h"

namespace tributary::train {
namespace {

bool lists(std::span<const std::string> modules, const std::string& module) {
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

/// The share of a module's layers that run again; they count as equal.
double share_run_again(const config::ModuleRecompute& again, std::int64_t layers) {
  if (layers == 0) return 1;
  return static_cast<double>(config::count_every(again.every, 0, layers)) /
         static_cast<double>(layers);
}

/// A forward of the adapters beside a module.
double count_adapters(const config::ModuleWork& work, const AdapterWork& adapters) {
  const auto share = adapters.shares.find(work.module);
  return share == adapters.shares.end() ? 0 : share->second * (work.linear - work.outside_layers);
}

/// Backward of weighted work: weight gradients where the module is trained, input gradients where
/// the gradient flows on; of attention: the gradients of both operands or none.
TrainFlops count_module(const config::ModuleWork& work, bool trained, bool flows,
                        const config::ModuleRecompute& again, const AdapterWork& adapters) {
  const bool trains_weights = trained && !adapters.trains_alone;
  double linear = (1 + (trains_weights ? 1 : 0) + (flows ? 1 : 0)) * work.linear;
  linear += 3 * count_adapters(work, adapters);
  const double passes = flows ? 3 : 1;
  TrainFlops train{.full = linear + passes * work.attention,
                   .causal = linear + passes * work.real_attention()};
  train.hardware = train.causal;
  if (!flows) return train;
  const double share = share_run_again(again, work.layers);
  if (again.level == config::RecomputePlan::kFull)
    train.hardware += share * (work.linear - work.outside_layers + work.real_attention());
  if (again.level == config::RecomputePlan::kSelective) train.hardware += share * work.mlp;
  if (again.level == config::RecomputePlan::kAttention)
    train.hardware +=
        share * (work.linear - work.outside_layers - work.mlp + work.real_attention());
  return train;
}

}  // namespace

ForwardFlops count_forward(const config::ModelConfig& config, const SampleShape& shape) {
  ForwardFlops forward;
  for (const config::ModuleChain& chain : config::chains_of(config)) {
    if (chain.modules.empty()) continue;
    const std::vector<Modality>& takes = chain.modules.front().takes;
    for (const config::FrontModule& module : chain.modules) {
      config::ModuleWork& work = forward.emplace_back();
      for (const Modality modality : takes)
        for (const Grid& item : shape.grids(modality)) work += module.work(config, item);
      work.module = module.name;
    }
  }
  // Each answer of a pair is a sequence of its own; the head works only on target tokens.
  config::ModuleWork backbone =
      config::count_backbone_work(config, shape.tokens - shape.rejected, shape.target_tokens);
  if (shape.rejected.count > 0)
    backbone += config::count_backbone_work(config, shape.rejected, Tokens{});
  forward.push_back(std::move(backbone));
  return forward;
}

void add_work(ForwardFlops& sum, const ForwardFlops& sample) {
  if (sum.empty()) {
    sum = sample;
    return;
  }
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += sample[i];
}

TrainFlops& TrainFlops::operator+=(const TrainFlops& other) {
  full += other.full;
  causal += other.causal;
  hardware += other.hardware;
  return *this;
}

std::vector<TrainFlops> count_training_of_modules(
    const ForwardFlops& forward, std::span<const std::string> frozen,
    std::span<const config::ModuleRecompute> recomputed, const AdapterWork& adapters) {
  std::vector<TrainFlops> trained;
  bool flows = false;         // within the chain
  bool flows_before = false;  // in any chain in front of the backbone
  for (const config::ModuleWork& work : forward) {
    const bool is_trained = !lists(frozen, work.module);
    const config::ModuleRole role = config::find_known_module(work.module)->role;
    if (role == config::ModuleRole::kEncoder) flows = false;
    if (role == config::ModuleRole::kBackbone) flows = flows_before;
    flows = flows || is_trained;
    flows_before = flows_before || flows;
    trained.push_back(count_module(work, is_trained, flows,
                                   config::recompute_of(recomputed, work.module), adapters));
  }
  return trained;
}

TrainFlops count_training(const ForwardFlops& forward, std::span<const std::string> frozen,
                          std::span<const config::ModuleRecompute> recomputed,
                          const AdapterWork& adapters) {
  TrainFlops sum;
  for (const TrainFlops& module : count_training_of_modules(forward, frozen, recomputed, adapters))
    sum += module;
  return sum;
}

TrainFlops count_inference(const ForwardFlops& forward, const AdapterWork& adapters) {
  TrainFlops sum;
  for (const config::ModuleWork& work : forward) {
    const double linear = work.linear + count_adapters(work, adapters);
    const double causal = linear + work.real_attention();
    sum += {.full = linear + work.attention, .causal = causal, .hardware = causal};
  }
  return sum;
}

std::string describe_mfu() {
  return "mfu = FLOP of forward and backward / (seconds of the step * peak FLOP/s). One "
         "multiply-add is 2 FLOP. Weighted layers: 2 * positions * weights forward, twice that "
         "backward (once where the module is frozen, none where nothing before it is trained); "
         "embedding 0; head on target tokens alone. Attention of the backbone, forward and "
         "backward: mfu_full 12 * tokens^2 * heads * head_width * layers per sample, mfu_causal "
         "6 * the same. Attention of a vision tower: 12 * width * patches^2 per window or frame. "
         "Adapters count as weighted layers, and the weights beside them as frozen. A reference "
         "(objective.kind dpo) adds one forward. Padding and "
         "recompute do not count. hfu = mfu_causal with one more forward of what "
         "model.recompute and model.offload run again in backward.";
}

}  // namespace tributary::train
