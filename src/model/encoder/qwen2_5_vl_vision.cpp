#include "model/encoder/qwen2_5_vl_vision.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/encoder/window_index.h"
#include "ops/attend_packed.h"
#include "ops/linear.h"
#include "ops/permute_rows.h"
#include "ops/rotary.h"
#include "ops/swiglu.h"
#include "parallel/linear.h"
#include "parallel/norm.h"
#include "parallel/split.h"

namespace tributary::model {
namespace {

using parallel::Bias;
using parallel::Cut;
using parallel::LinearShape;
using parallel::Unit;

constexpr double kRotaryTheta = 10000.0;

/// Angles of every patch: the first half of them by its row, the second by its column.
///
/// shape: returns [patches, head_width / 2] f32
at::Tensor rotary_angles(const WindowIndex& index, std::int64_t head_width) {
  const std::int64_t half = head_width / 2;
  // f32 throughout, in the reference's order of operations.
  const at::Tensor exponent = at::arange(0, half, 2, at::kFloat).div(static_cast<double>(half));
  const at::Tensor frequency = at::pow(kRotaryTheta, exponent).reciprocal();
  const auto angles = [&](const std::vector<std::int64_t>& positions) {
    return at::tensor(positions, at::kFloat).unsqueeze(1).mul(frequency);
  };
  return at::cat({angles(index.patch_rows), angles(index.patch_columns)}, 1);
}

/// The order in which merged tokens lie in windows; null when it is the order they come in.
std::optional<ops::RowOrder> order_of(const std::vector<std::int64_t>& order, at::Device device) {
  if (std::ranges::is_sorted(order)) return {};
  std::vector<std::int64_t> place_of(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    place_of[static_cast<std::size_t>(order[place])] = static_cast<std::int64_t>(place);
  return ops::RowOrder{.row_at = at::tensor(order, at::kLong).to(device),
                       .place_of = at::tensor(place_of, at::kLong).to(device)};
}

ops::RowOrder inverse(const ops::RowOrder& order) { return {order.place_of, order.row_at}; }

}  // namespace

/// Everything about a list of grids that does not depend on pixels or parameters.
struct Qwen2_5VlVision::Layout {
  Layout(std::span<const Grid> of, const config::VisionConfig& config, const WindowIndex& index,
         at::Device on)
      : grids(of.begin(), of.end()),
        device(on),
        windows(index.cu_windows, ops::Mask::kNone, on),
        frames(index.cu_frames, ops::Mask::kNone, on),
        rotary(ops::make_rotary_table(rotary_angles(index, config.width / config.heads).to(on),
                                      at::kFloat)),
        order(order_of(index.order, on)) {}

  std::vector<Grid> grids;
  at::Device device;
  ops::SampleGroups windows;
  ops::SampleGroups frames;
  ops::RotaryTable rotary;
  std::optional<ops::RowOrder> order;  // of merged tokens
};

/// A convolution whose kernel is as large as its stride is one product with the flat patches.
class Qwen2_5VlVision::PatchEmbedding {
 public:
  PatchEmbedding(const config::VisionConfig& config, Unit& unit)
      : unit_(unit),
        weight_(unit.declare(
            "visual.patch_embed.proj.weight",
            {config.width, config.channels, config.temporal_patch, config.patch, config.patch},
            {.kind = parallel::Initializer::Kind::kNormal, .deviation = config.initializer_range},
            parallel::replicated(unit.layout(), /*uses_part=*/false))) {}

  [[nodiscard]] at::Tensor run(const at::Tensor& rows) const {
    return parallel::run_layer(
        unit_, parallel::Keep::kActivations, rows, [this](const at::Tensor& x) {
          return ops::linear(x.to(weight_.value.scalar_type()), weight_.value.flatten(1), {});
        });
  }
  [[nodiscard]] const Unit& unit() const { return unit_; }

 private:
  Unit& unit_;
  parallel::Parameter& weight_;
};

class Qwen2_5VlVision::Block {
 public:
  Block(const config::VisionConfig& config, std::int64_t layer, Unit& unit)
      : unit_(unit),
        heads_(parallel::local_heads(unit.layout(), config.heads)),
        head_width_(config.width / config.heads),
        attends_frames_(std::ranges::count(config.full_attention_layers, layer) > 0),
        norm1_(unit, name(layer, "norm1"), config.width, config.norm_epsilon),
        qkv_(unit, name(layer, "attn.qkv"),
             shape(config, config.width, 3 * config.width, Cut::kColumns,
                   {config.heads, config.width / config.heads, 3})),
        out_(unit, name(layer, "attn.proj"), shape(config, config.width, config.width, Cut::kRows)),
        norm2_(unit, name(layer, "norm2"), config.width, config.norm_epsilon),
        gate_up_(unit, {name(layer, "mlp.gate_proj"), name(layer, "mlp.up_proj")},
                 {{config.mlp_width}, {config.mlp_width}},
                 shape(config, config.width, 0, Cut::kColumns)),
        down_(unit, name(layer, "mlp.down_proj"),
              shape(config, config.mlp_width, config.width, Cut::kRows)) {}

  [[nodiscard]] int stage() const { return unit_.layout().virtual_stage; }
  [[nodiscard]] at::Tensor run(const at::Tensor& hidden, parallel::Keep keep,
                               std::shared_ptr<const Layout> layout) const {
    return parallel::run_layer(unit_, keep, hidden,
                               [this, keep, layout = std::move(layout)](const at::Tensor& x) {
                                 const at::Tensor attended = x + attend(norm1_(x), *layout);
                                 return attended + run_mlp(attended, keep);
                               });
  }

 private:
  static std::string name(std::int64_t layer, const char* part) {
    return str("visual.blocks.", layer, ".", part);
  }
  static LinearShape shape(const config::VisionConfig& config, std::int64_t in, std::int64_t out,
                           Cut cut, parallel::Heads heads = {}) {
    return {.in = in,
            .out = out,
            .bias = Bias::kZeros,
            .deviation = config.initializer_range,
            .cut = cut,
            .heads = heads};
  }

  [[nodiscard]] at::Tensor run_mlp(const at::Tensor& x, parallel::Keep keep) const {
    return parallel::run_part(unit_, keep, x, [this](const at::Tensor& hidden) {
      return down_(ops::swiglu(gate_up_(norm2_(hidden))));
    });
  }

  [[nodiscard]] at::Tensor attend(const at::Tensor& x, const Layout& layout) const {
    const at::Tensor qkv = qkv_(x).view({x.size(0), 3 * heads_, head_width_});
    const at::Tensor rotated = ops::rotate_heads(qkv, layout.rotary, 2 * heads_);
    const ops::SampleGroups& groups = attends_frames_ ? layout.frames : layout.windows;
    return out_(ops::attend_packed(rotated, heads_, heads_, groups)
                    .reshape({x.size(0), heads_ * head_width_}));
  }

  Unit& unit_;
  std::int64_t heads_;  // of this tp rank
  std::int64_t head_width_;
  bool attends_frames_;
  parallel::Norm norm1_;
  parallel::Linear qkv_;
  parallel::Linear out_;
  parallel::Norm norm2_;
  parallel::JoinedLinear gate_up_;
  parallel::Linear down_;
};

/// Joins merge x merge patches into one backbone token.
class Qwen2_5VlVision::Merger {
 public:
  Merger(const config::VisionConfig& config, Unit& unit)
      : unit_(unit),
        joined_(config.width * config.merge * config.merge),
        norm_(unit, "visual.merger.ln_q", config.width, config.norm_epsilon),
        first_(unit, "visual.merger.mlp.0",
               {joined_, joined_, Bias::kZeros, config.initializer_range, Cut::kColumns}),
        second_(
            unit, "visual.merger.mlp.2",
            {joined_, config.output_width, Bias::kZeros, config.initializer_range, Cut::kRows}) {}

  [[nodiscard]] at::Tensor run(const at::Tensor& hidden, parallel::Keep keep) const {
    return parallel::run_layer(unit_, keep, hidden, [this](const at::Tensor& x) {
      return second_(at::gelu(first_(norm_(x).view({-1, joined_}))));
    });
  }

 private:
  Unit& unit_;
  std::int64_t joined_;
  parallel::Norm norm_;
  parallel::Linear first_;
  parallel::Linear second_;
};

Qwen2_5VlVision::Qwen2_5VlVision(const config::VisionConfig& config, const parallel::Layout* apart,
                                 const parallel::Layout& first_stage,
                                 std::vector<std::unique_ptr<Unit>>& units)
    : config_(config) {
  const auto add = [&](const char* module, std::string name,
                       const parallel::Layout& layout) -> Unit& {
    units.push_back(std::make_unique<Unit>(module, std::move(name), layout.with_whole_tokens()));
    return *units.back();
  };
  const auto tower_at = [&](std::int64_t layer) {
    if (apart == nullptr) return first_stage;
    return apart->at_stage(apart->stages ? apart->stages->stage_of(layer) : 0);
  };
  patch_embedding_ =
      std::make_unique<PatchEmbedding>(config, add("vision", "vision.patches", tower_at(0)));
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    blocks_.push_back(std::make_unique<Block>(
        config, layer, add("vision", str("vision.layers.", layer), tower_at(layer))));
  merger_ = std::make_unique<Merger>(config, add("projector", "projector.merger", first_stage));
}

Qwen2_5VlVision::~Qwen2_5VlVision() = default;

std::shared_ptr<const Qwen2_5VlVision::Layout> Qwen2_5VlVision::layout_of(
    std::span<const Grid> grids, at::Device device) {
  const auto known = std::ranges::find_if(layouts_, [&](const auto& layout) {
    return layout->device == device && std::ranges::equal(layout->grids, grids);
  });
  if (known != layouts_.end()) return *known;
  constexpr std::size_t kMostLayouts = 8;
  if (layouts_.size() == kMostLayouts) layouts_.erase(layouts_.begin());
  const std::int64_t window = config_.window / config_.patch / config_.merge;
  const WindowIndex index = index_windows(grids, config_.merge, window);
  layouts_.push_back(std::make_shared<const Layout>(grids, config_, index, device));
  return layouts_.back();
}

at::Tensor Qwen2_5VlVision::operator()(const at::Tensor& rows, std::span<const Grid> grids,
                                       VisionKeep keep) {
  return project(run_tower(/*stage=*/0, rows, grids, keep.vision), grids, keep.projector);
}

at::Tensor Qwen2_5VlVision::embed_patches(const at::Tensor& rows, std::span<const Grid> grids,
                                          const Layout& layout) const {
  std::int64_t patches = 0;
  for (const Grid& grid : grids) patches += grid.patches();
  TRIB_REQUIRE(rows.dim() == 2 && rows.size(0) == patches && rows.size(1) == config_.patch_width(),
               .what = "model: pixel rows do not match the grids",
               .found = tributary::str(rows.sizes()),
               .expected = str("[", patches, ", ", config_.patch_width(), "]"));
  const at::Tensor hidden = patch_embedding_->run(rows);
  if (!layout.order) return hidden;
  return ops::permute_rows(hidden.view({-1, config_.merge * config_.merge * config_.width}),
                           *layout.order)
      .view({-1, config_.width});
}

at::Tensor Qwen2_5VlVision::run_tower(int stage, const at::Tensor& input,
                                      std::span<const Grid> grids, parallel::Keep keep) {
  const std::shared_ptr<const Layout> layout = layout_of(grids, input.device());
  // Nothing before the pixels trains, so a frozen tower needs no graph at all.
  const bool trains_vision = patch_embedding_->unit().trainable();
  const at::AutoGradMode mode(at::GradMode::is_enabled() && trains_vision);
  at::Tensor hidden = stage == 0 ? embed_patches(input, grids, *layout) : input;
  for (const std::unique_ptr<Block>& block : blocks_)
    if (block->stage() == stage) hidden = block->run(hidden, keep, layout);
  return hidden;
}

at::Tensor Qwen2_5VlVision::project(const at::Tensor& patches, std::span<const Grid> grids,
                                    parallel::Keep keep) {
  const std::shared_ptr<const Layout> layout = layout_of(grids, patches.device());
  const at::Tensor merged = merger_->run(patches, keep);
  return layout->order ? ops::permute_rows(merged, inverse(*layout->order)) : merged;
}

}  // namespace tributary::model
