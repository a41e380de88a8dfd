#include "model/encoder/qwen_vision.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>

#include "core/error.h"
#include "ops/linear.h"
#include "ops/permute_rows.h"
#include "parallel/split.h"

namespace tributary::model {
namespace {

using config::VisionClass;
using parallel::Unit;

const std::string kTower = "vision";
const std::string kMerger = "projector";

BlockStyle style_of(const config::VisionConfig& config) {
  BlockStyle style{.width = config.width,
                   .heads = config.heads,
                   .mlp_width = config.mlp_width,
                   .norm_epsilon = config.norm_epsilon,
                   .deviation = config.initializer_range,
                   .norm1 = "norm1",
                   .qkv = {"attn.qkv"},
                   .out = "attn.proj",
                   .norm2 = "norm2",
                   .mlp = {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}};
  if (config.splits_qkv) style.qkv = {"attn.q", "attn.k", "attn.v"};
  switch (config.kind) {
    case VisionClass::kQwen2Vl:
      style.activation = ops::Activation::kQuickGelu;
      style.mlp = {"mlp.fc1", "mlp.fc2"};
      break;
    case VisionClass::kQwen2_5Vl:
      style.norm = parallel::NormKind::kRootMeanSquare;
      break;
    case VisionClass::kQwen3Vl:
      style.activation = ops::Activation::kGeluTanh;
      style.mlp = {"mlp.linear_fc1", "mlp.linear_fc2"};
      break;
    case VisionClass::kInternVit:
    case VisionClass::kSiglip:
      TRIB_RAISE(Fault::kBug, .what = "model: tower of tiles is no tower of Qwen-VL");
  }
  return style;
}

PatchMerger::Style merger_style_of(const config::VisionConfig& config, bool is_level) {
  if (config.kind == VisionClass::kQwen3Vl)
    return {"norm",   "linear_fc1",       "linear_fc2", parallel::NormKind::kLayer,
            is_level, config.norm_epsilon};
  return {.norm = "ln_q",
          .first = "mlp.0",
          .second = "mlp.2",
          .kind = config.kind == VisionClass::kQwen2Vl ? parallel::NormKind::kLayer
                                                       : parallel::NormKind::kRootMeanSquare,
          .epsilon = config.norm_epsilon};
}

ops::RowOrder inverse(const ops::RowOrder& order) { return {order.place_of, order.row_at}; }

/// Takes the rows of a table with weights, in f32 as transformers does.
/// shape: table [rows, width] -> returns [patches, width] f32
at::Tensor add_taps(const at::Tensor& table, const PositionTaps& taps) {
  at::Tensor sum;
  for (std::int64_t tap = 0; tap < taps.rows.size(0); ++tap) {
    const at::Tensor part =
        table.index_select(0, taps.rows[tap]).to(at::kFloat) * taps.weights[tap].unsqueeze(1);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

}  // namespace

/// A convolution whose kernel is as large as its stride is one product with the flat patches. A
/// learned table of positions is added to them.
class QwenVision::PatchEmbedding {
 public:
  PatchEmbedding(const config::VisionConfig& config, const std::string& prefix, Unit& unit)
      : unit_(unit) {
    const parallel::Initializer normal{.kind = parallel::Initializer::Kind::kNormal,
                                       .deviation = config.initializer_range};
    const parallel::Split whole = parallel::replicated(unit.layout(), /*uses_part=*/false);
    weight_ = &unit.declare(
        prefix + "patch_embed.proj.weight",
        {config.width, config.channels, config.temporal_patch, config.patch, config.patch}, normal,
        whole);
    if (config.kind != VisionClass::kQwen3Vl) return;
    bias_ = &unit.declare(prefix + "patch_embed.proj.bias", {config.width}, {}, whole);
    positions_ =
        &unit.declare(prefix + "pos_embed.weight",
                      {config.positions_side * config.positions_side, config.width}, normal, whole);
  }

  [[nodiscard]] at::Tensor run(const at::Tensor& rows,
                               std::shared_ptr<const PatchLayout> layout) const {
    return parallel::run_layer(
        unit_, parallel::Keep::kActivations, rows,
        [this, layout = std::move(layout)](const at::Tensor& x) {
          const at::Tensor given = x.to(weight_->value.scalar_type());
          const at::Tensor patches =
              ops::linear(given, weight_->value.flatten(1), bias_ ? bias_->value : at::Tensor());
          if (positions_ == nullptr) return patches;
          return patches + add_taps(positions_->value, *layout->taps).to(patches.scalar_type());
        });
  }
  [[nodiscard]] const Unit& unit() const { return unit_; }

 private:
  Unit& unit_;
  parallel::Parameter* weight_;
  parallel::Parameter* bias_ = nullptr;
  parallel::Parameter* positions_ = nullptr;
};

QwenVision::QwenVision(const config::VisionConfig& config, const EncoderPlace& place,
                       const std::string& prefix)
    : config_(config),
      patch_embedding_(
          std::make_unique<PatchEmbedding>(config, prefix, place.add_tower(kTower, "patches", 0))) {
  const BlockStyle style = style_of(config);
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    blocks_.push_back(
        std::make_unique<EncoderBlock>(style, str(prefix, "blocks.", layer, "."),
                                       place.add_tower(kTower, str("layers.", layer), layer)));
  mergers_.push_back(std::make_unique<PatchMerger>(config, merger_style_of(config, false),
                                                   prefix + "merger.",
                                                   place.add_projector(kMerger, "merger")));
  for (std::size_t level = 0; level < config.deepstack_layers.size(); ++level)
    mergers_.push_back(std::make_unique<PatchMerger>(
        config, merger_style_of(config, true), str(prefix, "deepstack_merger_list.", level, "."),
        place.add_projector(kMerger, str("deepstack.", level))));
}

QwenVision::~QwenVision() = default;

void QwenVision::set_keep(const parallel::KeepOf& keep_of) {
  model::set_keep(blocks_, keep_of(kTower));
  keep_merger_ = keep_of(kMerger).keep;
}

std::shared_ptr<const PatchLayout> QwenVision::layout_of(std::span<const Grid> grids,
                                                         at::Device device) {
  const auto known = std::ranges::find_if(layouts_, [&](const auto& layout) {
    return layout->device == device && std::ranges::equal(layout->grids, grids);
  });
  if (known != layouts_.end()) return *known;
  constexpr std::size_t kMaxLayouts = 8;
  if (layouts_.size() == kMaxLayouts) layouts_.erase(layouts_.begin());
  layouts_.push_back(std::make_shared<const PatchLayout>(grids, config_, device));
  return layouts_.back();
}

std::int64_t QwenVision::blocks_before(int stage) const {
  return std::ranges::count_if(blocks_, [&](const auto& block) { return block->stage() < stage; });
}

bool QwenVision::is_level(std::int64_t block) const {
  return std::ranges::count(config_.deepstack_layers, block) > 0;
}

std::int64_t QwenVision::input_width(int stage) const {
  const std::int64_t before = blocks_before(stage);
  return config_.width *
         (1 + std::ranges::count_if(config_.deepstack_layers,
                                    [&](std::int64_t layer) { return layer < before; }));
}

std::int64_t QwenVision::feature_width() const {
  return config_.width * static_cast<std::int64_t>(mergers_.size());
}

at::Tensor QwenVision::embed_patches(const at::Tensor& rows, std::span<const Grid> grids,
                                     const std::shared_ptr<const PatchLayout>& layout) const {
  std::int64_t patches = 0;
  for (const Grid& grid : grids) patches += grid.patches();
  TRIB_REQUIRE(rows.dim() == 2 && rows.size(0) == patches && rows.size(1) == config_.patch_width(),
               .what = "model: pixel rows do not match the grids",
               .found = tributary::str(rows.sizes()),
               .expected = str("[", patches, ", ", config_.patch_width(), "]"));
  const at::Tensor hidden = patch_embedding_->run(rows, layout);
  if (!layout->order) return hidden;
  return ops::permute_rows(hidden.view({-1, config_.merge * config_.merge * config_.width}),
                           *layout->order)
      .view({-1, config_.width});
}

at::Tensor QwenVision::run_tower(int stage, const at::Tensor& input, std::span<const Grid> items) {
  const std::shared_ptr<const PatchLayout> layout = layout_of(items, input.device());
  // Nothing before the pixels trains, so a frozen tower needs no graph at all.
  const bool trains_vision =
      patch_embedding_->unit().trainable() ||
      std::ranges::any_of(blocks_, [](const auto& block) { return block->needs_backward(); });
  const at::AutoGradMode mode(at::GradMode::is_enabled() && trains_vision);
  std::vector<at::Tensor> levels;  // the last one, then those of the middle
  if (stage == 0)
    levels.push_back(embed_patches(input, items, layout));
  else
    levels = input.split(config_.width, 1);
  for (std::int64_t i = 0; i < std::ssize(blocks_); ++i) {
    const EncoderBlock& block = *blocks_[static_cast<std::size_t>(i)];
    if (block.stage() != stage) continue;
    const bool attends_frames = std::ranges::count(config_.full_attention_layers, i) > 0;
    levels.front() = block.run(
        levels.front(),
        {.groups = attends_frames ? layout->frames : layout->windows, .rotary = &layout->rotary},
        layout);
    if (is_level(i)) levels.push_back(levels.front());
  }
  return levels.size() == 1 ? levels.front() : at::cat(levels, 1);
}

at::Tensor QwenVision::project(const at::Tensor& features, std::span<const Grid> items) {
  const std::shared_ptr<const PatchLayout> layout = layout_of(items, features.device());
  const std::vector<at::Tensor> levels = features.split(config_.width, 1);
  std::vector<at::Tensor> merged;
  for (std::size_t i = 0; i < mergers_.size(); ++i)
    merged.push_back(mergers_[i]->run(levels[i].contiguous(), keep_merger_));
  const at::Tensor tokens = merged.size() == 1 ? merged.front() : at::cat(merged, 1);
  return layout->order ? ops::permute_rows(tokens, inverse(*layout->order)) : tokens;
}

}  // namespace tributary::model
