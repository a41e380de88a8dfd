#include "model/backbone.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "ops/attend_cached.h"
#include "ops/to_device.h"

namespace tributary::model {
namespace {

parallel::Unit& add_unit(std::vector<std::unique_ptr<parallel::Unit>>& units,
                         const std::string& name, const parallel::Layout& layout) {
  units.push_back(std::make_unique<parallel::Unit>(std::string(config::kBackboneModule),
                                                   "backbone." + name, layout));
  return *units.back();
}

/// How fast the angle of each pair of a head turns with the position.
/// shape: returns [head_width / 2] f32
at::Tensor rotary_frequencies(const config::BackboneConfig& config, at::Device device) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  const at::Tensor exponents =
      at::arange(0, config.head_width, 2, options).div_(static_cast<double>(config.head_width));
  const at::Tensor frequencies = at::reciprocal(at::pow(config.rope_theta, exponents));
  if (!config.rope_scaling) return frequencies;
  // Long wavelengths turn slower by the factor, short ones as before, those between in part.
  const config::RopeScaling& scaling = *config.rope_scaling;
  const at::Tensor wavelengths = 2 * M_PI / frequencies;
  const auto context = static_cast<double>(scaling.original_positions);
  const at::Tensor kept = ((context / wavelengths - scaling.low_frequency) /
                           (scaling.high_frequency - scaling.low_frequency))
                              .clamp(0, 1);
  return (1 - kept) * (frequencies / scaling.factor) + kept * frequencies;
}

/// The axis that each frequency follows: runs of time, row and column ("chunked"), or in turns.
std::vector<std::int64_t> axes_of_frequencies(const config::BackboneConfig& config) {
  std::vector<std::int64_t> axes;
  if (!config.mrope_interleaved) {
    for (std::size_t axis = 0; axis < config.mrope_section.size(); ++axis)
      axes.insert(axes.end(), static_cast<std::size_t>(config.mrope_section[axis]),
                  static_cast<std::int64_t>(axis));
    return axes;
  }
  for (std::int64_t i = 0; i < config.head_width / 2; ++i) {
    const std::int64_t axis = i % 3;
    const bool follows = axis > 0 && i < 3 * config.mrope_section[static_cast<std::size_t>(axis)];
    axes.push_back(follows ? axis : 0);
  }
  return axes;
}

/// Angles of the backbone's rotary positions: without `mrope_section` all follow row 0.
///
/// shape:  position_ids [3, tokens] i64 -> returns [tokens, head_width / 2] f32
/// source: docs/theory/numerics.md, "Norms, rotary positions and attention"
at::Tensor rotary_angles(const config::BackboneConfig& config, const at::Tensor& position_ids) {
  const at::Tensor frequencies = rotary_frequencies(config, position_ids.device());
  if (config.mrope_section.empty())
    return position_ids.select(0, 0).to(at::kFloat).unsqueeze(1) * frequencies;
  const at::Tensor axes = ops::to_device(
      at::tensor(axes_of_frequencies(config), at::kLong).narrow(0, 0, config.head_width / 2),
      position_ids.device());
  return position_ids.to(at::kFloat).index_select(0, axes).t() * frequencies;
}

}  // namespace

Backbone::Backbone(const config::BackboneConfig& config, const BackboneNames& names,
                   const parallel::Layout& layout,
                   std::vector<std::unique_ptr<parallel::Unit>>& units)
    : config_(config) {
  embedding_unit_ = &add_unit(units, "embed", layout.at_stage(0));
  embedding_.emplace(*embedding_unit_, names.prefix + "embed_tokens", config.vocab, config.width,
                     config.initializer_range);
  layers_.reserve(static_cast<std::size_t>(config.layers));
  for (std::int64_t i = 0; i < config.layers; ++i) {
    parallel::Unit& unit = add_unit(units, str("layers.", i), layout.at_stage(stage_of(i)));
    layer_units_.push_back(&unit);
    layers_.emplace_back(unit, config, str(names.prefix, "layers.", i));
  }
  add_head(names, layout.at_stage(layout.virtual_stages() - 1), units);
}

void Backbone::add_head(const BackboneNames& names, const parallel::Layout& layout,
                        std::vector<std::unique_ptr<parallel::Unit>>& units) {
  head_unit_ = &add_unit(units, "head", layout);
  final_norm_.emplace(*head_unit_, names.prefix + "norm", config_.width, config_.norm_epsilon);
  if (!config_.tied_head) {
    head_.emplace(*head_unit_, names.head, config_.vocab, config_.width, config_.initializer_range);
    return;
  }
  if (layout.holder(0) == layout.holder(layout.virtual_stage)) {
    head_.emplace(*embedding_unit_, *embedding_);
    return;
  }
  // The copy has a unit of its own, so that it is cut over the ranks as the embedding is.
  head_.emplace(add_unit(units, "tied_head", layout), names.prefix + "embed_tokens", config_.vocab,
                config_.width, config_.initializer_range);
  for (parallel::Parameter* copy : {&embedding_->weight(), &head_->weight()}) {
    copy->split.copies = &layout.mesh->end_stages();
    copy->split.partial_gradient = true;
  }
}

Backbone::Layers Backbone::layers_of(int stage) const {
  if (!layout().stages) return {0, layers_.size()};
  const config::StageLayers& own = layout().stages->layers[static_cast<std::size_t>(stage)];
  const auto first = static_cast<std::size_t>(own.first);
  return {first, first + static_cast<std::size_t>(own.layers)};
}

int Backbone::stage_of(std::int64_t layer) const {
  const std::shared_ptr<const parallel::StageMap>& stages = layout().stages;
  return stages ? stages->stage_of(layer) : 0;
}

at::Tensor Backbone::embed(const at::Tensor& token_ids) const {
  return parallel::run_layer(*embedding_unit_, parallel::Keep::kActivations, token_ids,
                             [this](const at::Tensor& ids) { return (*embedding_)(ids); });
}

at::Tensor Backbone::run_head(const at::Tensor& hidden, parallel::LayerBody body) const {
  const auto normalise = [this](const at::Tensor& x) { return (*final_norm_)(x); };
  constexpr parallel::Keep kKeep = parallel::Keep::kActivations;
  if (&head_->unit() == head_unit_)
    return parallel::run_layer(
        *head_unit_, kKeep, hidden,
        [normalise, body = std::move(body)](const at::Tensor& x) { return body(normalise(x)); });
  // The weight of a tied head lies in another unit than the norm.
  return parallel::run_layer(head_->unit(), kKeep,
                             parallel::run_layer(*head_unit_, kKeep, hidden, normalise),
                             std::move(body));
}

std::shared_ptr<const PackContext> Backbone::context_of(const at::Tensor& hidden,
                                                        const at::Tensor& position_ids,
                                                        const parallel::TokenSplit& split) const {
  TRIB_CHECK(position_ids.dim() == 2 && position_ids.size(0) == 3 &&
                 position_ids.size(1) == split.tokens(),
             .what = "model: positions do not fit the tokens",
             .found = tributary::str("position_ids ", position_ids.sizes(), ", ", split.tokens(),
                                     " tokens"),
             .expected = "position_ids [3, tokens]");
  const at::Tensor positions =
      ops::to_device(split.keep(position_ids, /*padding=*/0), hidden.device());
  // Layers that run again in backward share it after this call has returned.
  return std::make_shared<const PackContext>(PackContext{
      .rotary = ops::make_rotary_table(rotary_angles(config_, positions), hidden.scalar_type()),
      .attention = parallel::PackAttention(split, layout(), hidden.device())});
}

at::Tensor Backbone::forward(int stage, const at::Tensor& hidden, const at::Tensor& position_ids,
                             const parallel::TokenSplit& split) const {
  const auto context = context_of(hidden, position_ids, split);
  const auto [first, end] = layers_of(stage);
  Stream stream = take(hidden);
  for (std::size_t i = first; i < end; ++i) {
    const DecoderLayer& layer = layers_[i];
    stream.hidden = parallel::run_layer(
        *layer_units_[i], layer.keep(), stream.hidden,
        [&layer, context](const at::Tensor& input) { return layer(input, context); });
    add_level(stream);
  }
  return join(stream);
}

std::int64_t Backbone::input_width(int stage) const {
  std::int64_t before = 0;  // not `first` of the stage: one without layers has none
  for (int earlier = 0; earlier < stage; ++earlier) {
    const auto [first, end] = layers_of(earlier);
    before += static_cast<std::int64_t>(end - first);
  }
  return config_.width * (1 + std::max<std::int64_t>(0, config_.deepstack_levels - before));
}

Backbone::Stream Backbone::take(const at::Tensor& input) const {
  if (input.size(1) == config_.width) return {.hidden = input, .levels = {}};
  std::vector<at::Tensor> parts = input.split(config_.width, 1);
  return {.hidden = parts.front().contiguous(), .levels = {parts.begin() + 1, parts.end()}};
}

at::Tensor Backbone::join(const Stream& stream) {
  if (stream.levels.empty()) return stream.hidden;
  std::vector<at::Tensor> parts{stream.hidden};
  parts.insert(parts.end(), stream.levels.begin(), stream.levels.end());
  return at::cat(parts, 1);
}

void Backbone::add_level(Stream& stream) {
  if (stream.levels.empty()) return;
  stream.hidden = stream.hidden + stream.levels.front();
  stream.levels.erase(stream.levels.begin());
}

void Backbone::set_keep(parallel::LayerKeep keep) {
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layers_[i].set_keep(keep.of(static_cast<std::int64_t>(i)));
}

at::Tensor Backbone::prefill(int stage, const at::Tensor& hidden, const at::Tensor& position_ids,
                             std::span<const std::int32_t> cu_seqlens, KvCache& cache) const {
  const at::NoGradGuard no_grad;
  const parallel::TokenSplit split(cu_seqlens, layout());
  TRIB_CHECK(split.is_whole(), .what = "model: a prompt is split over ranks",
             .expected = "parallel::TokensWhole around prefill and decode");
  const auto context = context_of(hidden, position_ids, split);
  const auto [first, end] = layers_of(stage);
  Stream stream = take(hidden);
  at::Tensor& passed = stream.hidden;
  for (std::size_t i = first; i < end; ++i) {
    const parallel::Whole whole(*layer_units_[i]);
    const auto [queries, keys] = layers_[i].local_heads();
    const at::Tensor heads = layers_[i].project(passed, context->rotary);
    cache.fill(static_cast<std::int64_t>(i), heads.narrow(1, queries, 2 * keys));
    passed = layers_[i].finish(passed, context->attention(heads, queries, keys));
    add_level(stream);
  }
  if (!is_last(stage)) return join(stream);
  std::vector<std::int64_t> last_tokens;
  for (std::size_t i = 1; i < cu_seqlens.size(); ++i) last_tokens.push_back(cu_seqlens[i] - 1);
  const at::Tensor rows = ops::to_device(at::tensor(last_tokens, at::kLong), passed.device());
  return passed.index_select(0, rows);
}

at::Tensor Backbone::decode(int stage, const at::Tensor& hidden, KvCache& cache) const {
  const at::NoGradGuard no_grad;
  const ops::RotaryTable rotary =
      ops::make_rotary_table(rotary_angles(config_, cache.positions()), hidden.scalar_type());
  const at::Tensor hidden_columns = cache.hidden_columns(hidden.scalar_type());
  const auto [first, end] = layers_of(stage);
  at::Tensor passed = hidden;
  for (std::size_t i = first; i < end; ++i) {
    const parallel::Whole whole(*layer_units_[i]);
    const auto [queries, keys] = layers_[i].local_heads();
    const at::Tensor heads = layers_[i].project(passed, rotary);
    const at::Tensor kept =
        cache.append(static_cast<std::int64_t>(i), heads.narrow(1, queries, 2 * keys));
    const at::Tensor query = heads.narrow(1, 0, queries).contiguous();
    passed = layers_[i].finish(passed, ops::attend_cached(query, kept, hidden_columns));
  }
  return passed;
}

}  // namespace tributary::model
