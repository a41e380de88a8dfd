#include "model/encoder/tile_vision.h"

#include <cmath>

#include <ATen/ATen.h>

#include "config/family/anyres.h"
#include "core/error.h"
#include "ops/linear.h"
#include "parallel/split.h"

namespace tributary::model {
namespace {

using parallel::Unit;

const std::string kTileTower = "vision";
const std::string kTileProjector = "projector";

std::int64_t count_tiles(std::span<const Grid> items) {
  std::int64_t tiles = 0;
  for (const Grid& item : items) tiles += item.time;
  return tiles;
}

/// The row of the table for each patch of a tile: patches come token by token, `merge` x `merge`
/// each, and the table has them row by row.
/// shape: returns [patches of a tile] i64
at::Tensor table_rows(std::int64_t side, std::int64_t merge, at::Device device) {
  const std::int64_t blocks = side / merge;
  return at::arange(side * side, at::TensorOptions(device).dtype(at::kLong))
      .view({blocks, merge, blocks, merge})
      .permute({0, 2, 1, 3})
      .flatten();
}

/// Rows and columns of tokens in another number, each the mean of its neighbours by their distance.
/// shape: tokens [items, rows, columns, width] -> returns [items, rows, columns, width]
at::Tensor in_size(const at::Tensor& tokens, std::int64_t rows, std::int64_t columns) {
  if (tokens.size(1) == rows && tokens.size(2) == columns) return tokens;
  return at::upsample_bilinear2d(tokens.permute({0, 3, 1, 2}).contiguous(), {rows, columns},
                                 /*align_corners=*/false)
      .permute({0, 2, 3, 1});
}

/// Declares a norm that files have and nothing reads: its gradient is 0.
void declare_norm(Unit& unit, const std::string& name, std::int64_t width) {
  const parallel::Split whole = parallel::replicated(unit.layout(), /*uses_part=*/false);
  (void)unit.declare(name + ".weight", {width},
                     {.kind = parallel::Initializer::Kind::kOnes, .deviation = 0}, whole);
  (void)unit.declare(name + ".bias", {width}, {}, whole);
}

}  // namespace

/// A convolution whose kernel is as large as its stride is one product with the flat patches. Each
/// tile gets its class token in front, and all its rows their positions.
class TileVision::TileEmbedding {
 public:
  TileEmbedding(const config::VisionConfig& config, const TileNames& names, Unit& unit)
      : config_(config), unit_(unit) {
    const parallel::Initializer normal{.kind = parallel::Initializer::Kind::kNormal,
                                       .deviation = config.initializer_range};
    const parallel::Split whole = parallel::replicated(unit.layout(), /*uses_part=*/false);
    if (config.class_token)
      class_token_ = &unit.declare(names.class_token, {1, 1, config.width}, normal, whole);
    positions_ = &unit.declare(names.positions, names.positions_shape, normal, whole);
    weight_ =
        &unit.declare(names.patches + ".weight",
                      {config.width, config.channels, config.patch, config.patch}, normal, whole);
    bias_ = &unit.declare(names.patches + ".bias", {config.width}, {}, whole);
  }

  [[nodiscard]] at::Tensor run(const at::Tensor& rows, std::int64_t tiles) const {
    return parallel::run_layer(
        unit_, parallel::Keep::kActivations, rows, [this, tiles](const at::Tensor& x) {
          const at::Tensor given = x.to(weight_->value.scalar_type());
          at::Tensor patches = ops::linear(given, weight_->value.flatten(1), bias_->value)
                                   .view({tiles, -1, config_.width});
          const std::int64_t side = config_.tile_side();
          const at::Tensor table = positions_->value.view({-1, config_.width});
          const std::int64_t first = table.size(0) - side * side;
          patches = patches +
                    table.index_select(0, table_rows(side, config_.merge, x.device()).add(first));
          if (class_token_ == nullptr) return patches.flatten(0, 1);
          const at::Tensor front = class_token_->value + table.narrow(0, 0, 1);
          return at::cat({front.expand({tiles, 1, config_.width}), patches}, 1).flatten(0, 1);
        });
  }
  [[nodiscard]] const Unit& unit() const { return unit_; }

 private:
  config::VisionConfig config_;
  Unit& unit_;
  parallel::Parameter* class_token_ = nullptr;
  parallel::Parameter* positions_;
  parallel::Parameter* weight_;
  parallel::Parameter* bias_;
};

TileVision::TileVision(const config::VisionConfig& config, const EncoderPlace& place,
                       const TileNames& names)
    : config_(config),
      embedding_(std::make_unique<TileEmbedding>(config, names,
                                                 place.add_tower(kTileTower, "patches", 0))),
      groups_device_(at::kCPU) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    Unit& unit = place.add_tower(kTileTower, str("layers.", layer), layer);
    blocks_.push_back(
        std::make_unique<EncoderBlock>(names.block, str(names.blocks, layer, "."), unit));
    const bool is_last = layer + 1 == config.layers;
    if (is_last && !names.unused_norm.empty()) declare_norm(unit, names.unused_norm, config.width);
  }
  Unit& projector = place.add_projector(kTileProjector, "projector");
  projector_ = std::make_unique<PatchMerger>(config, names.merger, names.projector, projector);
  if (!names.newline.empty())
    newline_ =
        &projector.declare(names.newline, {config.output_width},
                           {.kind = parallel::Initializer::Kind::kNormal,
                            .deviation = 1 / std::sqrt(static_cast<double>(config.output_width))},
                           parallel::replicated(projector.layout(), /*uses_part=*/false));
}

TileVision::~TileVision() = default;

void TileVision::set_keep(const parallel::KeepOf& keep_of) {
  model::set_keep(blocks_, keep_of(kTileTower));
  keep_projector_ = keep_of(kTileProjector).keep;
}

std::int64_t TileVision::input_width(int /*stage*/) const { return config_.width; }

std::shared_ptr<const ops::SampleGroups> TileVision::groups_of(std::int64_t tiles,
                                                               at::Device device) {
  const std::int64_t side = config_.tile_side();
  const std::int64_t rows = config_.frame_rows(side * side);
  if (groups_ && groups_->tokens() == tiles * rows && groups_device_ == device) return groups_;
  std::vector<std::int32_t> bounds;
  for (std::int64_t tile = 0; tile <= tiles; ++tile)
    bounds.push_back(static_cast<std::int32_t>(tile * rows));
  groups_ = std::make_shared<const ops::SampleGroups>(bounds, ops::Mask::kNone, device);
  groups_device_ = device;
  return groups_;
}

at::Tensor TileVision::embed_tiles(const at::Tensor& rows, std::span<const Grid> items) const {
  const std::int64_t side = config_.tile_side();
  for (const Grid& item : items)
    TRIB_REQUIRE(item.time > 0 && item.rows == side && item.columns == side,
                 .what = "model: tile of another size than the tower's",
                 .found = str(item.rows, "x", item.columns, " patches"),
                 .expected = str(side, "x", side), .fix = "use the image processor of the model");
  const std::int64_t tiles = count_tiles(items);
  TRIB_REQUIRE(rows.dim() == 2 && rows.size(0) == tiles * side * side &&
                   rows.size(1) == config_.patch_width(),
               .what = "model: pixel rows do not match the grids",
               .found = tributary::str(rows.sizes()),
               .expected = str("[", tiles * side * side, ", ", config_.patch_width(), "]"));
  return embedding_->run(rows, tiles);
}

at::Tensor TileVision::run_tower(int stage, const at::Tensor& input, std::span<const Grid> items) {
  // Nothing before the pixels trains, so a frozen tower needs no graph at all.
  const at::AutoGradMode mode(at::GradMode::is_enabled() && embedding_->unit().trainable());
  const auto groups = groups_of(count_tiles(items), input.device());
  at::Tensor hidden = stage == 0 ? embed_tiles(input, items) : input;
  for (const auto& block : blocks_)
    if (block->stage() == stage) hidden = block->run(hidden, {*groups}, groups);
  return hidden;
}

at::Tensor TileVision::project(const at::Tensor& features, std::span<const Grid> items) {
  const std::int64_t side = config_.tile_side();
  at::Tensor patches = features;
  if (config_.class_token)
    patches = features.reshape({count_tiles(items), side * side + 1, config_.width})
                  .narrow(1, 1, side * side)
                  .reshape({-1, config_.width});
  if (newline_ == nullptr) return projector_->run(patches, keep_projector_);
  return projector_->run(patches, keep_projector_,
                         [this, kept = std::vector<Grid>(items.begin(), items.end())](
                             const at::Tensor& tokens) { return arrange(tokens, kept); });
}

at::Tensor TileVision::arrange(const at::Tensor& tokens, const std::vector<Grid>& items) const {
  const std::int64_t side = config_.tile_side();
  const at::Tensor newline = newline_->value.unsqueeze(0);
  std::vector<at::Tensor> arranged;
  std::int64_t first = 0;
  for (const Grid& item : items) {
    const at::Tensor tiles =
        tokens.narrow(0, first, item.patches()).view({item.time, side, side, config_.output_width});
    first += item.patches();
    if (item.mosaic.tile_columns == 0) {  // a clip
      const std::int64_t smaller = config::clip_side_of(config_);
      arranged.push_back(in_size(tiles, smaller, smaller).reshape({-1, config_.output_width}));
      arranged.push_back(newline);
      continue;
    }
    arranged.push_back(tiles[0].flatten(0, 1));
    arranged.push_back(
        item.time == 1 ? newline : arrange_picture(tiles.narrow(0, 1, item.time - 1), item.mosaic));
  }
  return at::cat(arranged);
}

/// shape: tiles [tiles, side, side, width] -> returns [rows * (columns + 1), width]
at::Tensor TileVision::arrange_picture(const at::Tensor& tiles, const Mosaic& mosaic) const {
  const std::int64_t side = config_.tile_side();
  const std::int64_t width = config_.output_width;
  const std::int64_t tile_rows = tiles.size(0) / mosaic.tile_columns;
  const at::Tensor whole = tiles.view({tile_rows, mosaic.tile_columns, side, side, width})
                               .permute({0, 2, 1, 3, 4})
                               .reshape({1, tile_rows * side, mosaic.tile_columns * side, width});
  const at::Tensor kept = whole.narrow(1, (whole.size(1) - mosaic.rows) / 2, mosaic.rows)
                              .narrow(2, (whole.size(2) - mosaic.columns) / 2, mosaic.columns);
  const config::TokenRows size = config::token_rows_of(config_, mosaic);
  const at::Tensor rows = in_size(kept, size.rows, size.columns)[0];
  const at::Tensor newlines = newline_->value.expand({size.rows, 1, width});
  return at::cat({rows, newlines}, 1).flatten(0, 1);
}

}  // namespace tributary::model
