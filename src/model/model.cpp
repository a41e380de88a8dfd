#include "model/model.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/kv_cache.h"
#include "ops/to_device.h"
#include "parallel/sequence/token_split.h"
#include "parallel/stage/stage_link.h"

namespace tributary::model {
namespace {

at::Tensor empty_rows(const Model& model, std::int64_t rows, std::int64_t width) {
  return at::empty({rows, width}, model.units().front()->whole_options());
}

Features features_of(const PackedBatch& batch, bool tokens_are_whole) {
  return batch.encode_apart ? batch.encode_apart(tokens_are_whole) : Features{};
}

parallel::Keep keep_at(config::RecomputePlan level) {
  switch (level) {
    case config::RecomputePlan::kNone:
      return parallel::Keep::kActivations;
    case config::RecomputePlan::kSelective:
      return parallel::Keep::kAttention;
    case config::RecomputePlan::kAttention:
      return parallel::Keep::kMlp;
    case config::RecomputePlan::kFull:
      break;
  }
  return parallel::Keep::kInput;
}

[[noreturn]] void raise_no_encoder(const std::string& module) {
  TRIB_RAISE(Fault::kBug, .what = "model: family has no encoder of this name", .found = module);
}

}  // namespace

const EncoderInput& PackedBatch::of(Modality modality) const {
  static const EncoderInput none;
  const auto found = media.find(modality);
  return found == media.end() ? none : found->second;
}

bool PackedBatch::has_media() const {
  return std::ranges::any_of(media, [](const auto& each) {
    return each.second.rows.defined() || !each.second.grids.empty();
  });
}

void Model::take_adapters() {
  std::vector<std::unique_ptr<parallel::Unit>> all;
  for (auto& unit : units_) {
    std::unique_ptr<parallel::Unit> adapter = unit->give_adapter();
    all.push_back(std::move(unit));
    if (adapter) all.push_back(std::move(adapter));
  }
  units_ = std::move(all);
}

at::Tensor Model::empty_input(int stage, const PackedBatch& batch) const {
  const parallel::TokenSplit split(batch.cu_seqlens, layout());
  return empty_rows(*this, split.hidden_rows(), input_width(stage));
}

std::int64_t Model::input_width(int /*stage*/) const { return config_.backbone.width; }

at::Tensor Model::forward(const PackedBatch& batch) {
  const Features features = features_of(batch, /*tokens_are_whole=*/false);
  return parallel::run_stages(
      layout(), [&](int stage) { return empty_input(stage, batch); },
      [&](int stage, const at::Tensor& hidden) {
        return run_stage(stage, batch, {.hidden = hidden, .features = features});
      });
}

at::Tensor Model::run_encoder_stage(const std::string& module, int, const EncoderInput&,
                                    const at::Tensor&) {
  raise_no_encoder(module);
}

at::Tensor Model::empty_encoder_input(const std::string& module, int, const EncoderInput&) const {
  raise_no_encoder(module);
}

std::int64_t Model::feature_rows(const std::string& module, const Grid&) const {
  raise_no_encoder(module);
}

std::int64_t Model::feature_width(const std::string& module) const { raise_no_encoder(module); }

at::Tensor Model::head(const at::Tensor& hidden) {
  return run_head(hidden, [this](const at::Tensor& x) { return language_head()(x); });
}

at::Tensor Model::prefill(const PackedBatch& batch, KvCache& cache) {
  const at::NoGradGuard no_grad;
  cache.start(batch.cu_seqlens, ops::to_device(batch.position_ids, device()),
              config_.backbone.layers);
  const Features features = features_of(batch, /*tokens_are_whole=*/true);
  return parallel::run_stages(
      layout(), [&](int stage) { return empty_input(stage, batch); },
      [&](int stage, const at::Tensor& hidden) {
        return prefill_stage(stage, batch, {.hidden = hidden, .features = features}, cache);
      });
}

at::Tensor Model::decode(const at::Tensor& token_ids, KvCache& cache) {
  const at::NoGradGuard no_grad;
  cache.advance();
  return parallel::run_stages(
      layout(), [&](int) { return empty_rows(*this, token_ids.size(0), config_.backbone.width); },
      [&](int stage, const at::Tensor& input) {
        return decode_stage(stage, token_ids, input, cache);
      });
}

void Model::set_recompute(std::span<const config::ModuleRecompute> recompute,
                          std::span<const std::string> offload) {
  set_keep([&](std::string_view module) {
    if (std::ranges::find(offload, module) != offload.end())
      return parallel::LayerKeep{parallel::Keep::kInputOnHost};
    const config::ModuleRecompute again = config::recompute_of(recompute, module);
    return parallel::LayerKeep{keep_at(again.level), again.every};
  });
}

}  // namespace tributary::model
