#include <algorithm>
#include <optional>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/backbone.h"
#include "model/encoder/media.h"
#include "model/encoder/qwen2_5_vl_vision.h"
#include "model/family/all_families.h"
#include "ops/select_rows.h"
#include "parallel/token_exchange.h"

namespace tributary::model {
namespace {

using parallel::Keep;

/// Qwen2.5-VL: vision features take the places of the placeholders among the embedded tokens.
class Qwen2_5Vl final : public Model {
 public:
  Qwen2_5Vl(const config::ModelConfig& config, const ModelLayout& layouts)
      : Model(config, layouts),
        vision_(config_.vision.value(), apart(), layout().at_stage(0), units_),
        backbone_(config_.backbone, "model.", layout(), units_) {}

  at::Tensor run_stage(int stage, const PackedBatch& batch, const at::Tensor& input) override {
    const parallel::TokenSplit split(batch.cu_seqlens, layout());
    return backbone_.forward(stage, enter(stage, batch, input, split), batch.position_ids, split);
  }
  at::Tensor run_encoder_stage(const std::string& /*module*/, int stage, const EncoderInput& media,
                               const at::Tensor& input) override {
    const EncoderInput some = media.grids.empty() ? smallest_input() : media;
    return vision_.run_tower(stage, input.defined() ? input : some.rows, some.grids, keep_.vision);
  }
  at::Tensor empty_encoder_input(const std::string& module,
                                 const EncoderInput& media) const override {
    std::int64_t rows = 0;
    for (const Grid& grid : media.grids) rows += feature_rows(module, grid);
    return at::empty({rows > 0 ? rows : smallest_grid().patches(), config_.vision->width},
                     units().front()->whole_options());
  }
  std::int64_t feature_rows(const std::string& /*module*/, const Grid& item) const override {
    return item.patches();
  }
  std::int64_t feature_width(const std::string& /*module*/) const override {
    return config_.vision->width;
  }
  at::Tensor run_head(const at::Tensor& hidden, parallel::LayerBody body) override {
    return backbone_.run_head(hidden, std::move(body));
  }
  const parallel::LanguageHead& language_head() const override { return backbone_.language_head(); }

  at::Tensor prefill_stage(int stage, const PackedBatch& batch, const at::Tensor& input,
                           KvCache& cache) override {
    const parallel::TokenSplit split(batch.cu_seqlens, layout());
    return backbone_.prefill(stage, enter(stage, batch, input, split), batch.position_ids,
                             batch.cu_seqlens, cache);
  }
  at::Tensor decode_stage(int stage, const at::Tensor& token_ids, const at::Tensor& input,
                          KvCache& cache) override {
    return backbone_.decode(stage, stage == 0 ? backbone_.embed(token_ids) : input, cache);
  }

  void set_keep(const KeepOf& keep_of) override {
    keep_ = {.vision = keep_of("vision"), .projector = keep_of("projector")};
    backbone_.set_keep(keep_of("backbone"));
  }

 private:
  /// Feature rows and the rows of this rank's embedded tokens that they take.
  struct Features {
    at::Tensor rows;
    at::Tensor places;
  };
  /// What this rank encodes of a pack, and where the features go.
  struct Share {
    Media own;
    std::optional<parallel::RowRoute> route;  // where ranks share a pack
    bool is_idle = false;                     // own holds only the smallest input
  };

  [[nodiscard]] const parallel::Layout* apart() const {
    const auto own = layouts_.encoders.find("vision");
    return own == layouts_.encoders.end() ? nullptr : &own->second;
  }

  /// What a stage of the backbone takes: `input`, or at the first one the embedded tokens with the
  /// features in their places. There `input` is the tower's patches, where it has ranks of its own.
  /// shape: returns [tokens that this rank keeps, width]
  [[nodiscard]] at::Tensor enter(int stage, const PackedBatch& batch, const at::Tensor& input,
                                 const parallel::TokenSplit& split) {
    if (stage > 0) return input;
    const at::Tensor ids = split.keep(batch.input_ids, /*padding=*/0);
    const bool has_media = !batch.image_grids.empty() || !batch.video_grids.empty();
    if (!has_media && layout().mesh->shard().is_single()) return backbone_.embed(ids);
    const Share share = share_of(batch, split);
    Features features = project(share, patches_of(share, input));
    const at::Tensor embedded = backbone_.embed(ids);
    if (layout().splits_tokens()) features = own_features(features, embedded.size(0));
    // Places are unique, so unlike an accumulating scatter this does not depend on threads.
    return embedded.index_copy(0, features.places, features.rows.to(embedded.scalar_type()));
  }

  /// The media that this rank encodes. One without media encodes something too: others of the shard
  /// group may hold some, and all must gather the tower's parameters alike.
  [[nodiscard]] Share share_of(const PackedBatch& batch, const parallel::TokenSplit& split) const {
    Share share{.own = gather_media(batch), .route = std::nullopt};
    if (!share.own.grids.empty() && layout().splits_sequence()) {
      MediaShare part = share_media(share.own, config_.vision->merge, split, layout());
      share = {.own = std::move(part.own), .route = std::move(part.route)};
      share.own.places = share.route->places();
    }
    if (!share.own.grids.empty()) return share;
    EncoderInput smallest = smallest_input();
    const at::Tensor places =
        share.route ? share.route->places() : at::empty({0}, share.own.places.options());
    share.own = {std::move(smallest.rows), std::move(smallest.grids), places};
    share.is_idle = true;
    return share;
  }

  /// The patches that the projector takes. `features`: those of a tower with ranks of its own.
  [[nodiscard]] at::Tensor patches_of(const Share& share, const at::Tensor& features) {
    if (apart() == nullptr)
      return vision_.run_tower(/*stage=*/0, share.own.rows, share.own.grids, keep_.vision);
    if (!share.is_idle) return features;
    // It needs a gradient where features do: the route sends gradients on all ranks or on none.
    return at::zeros({smallest_grid().patches(), config_.vision->width},
                     units().front()->whole_options())
        .requires_grad_(features.defined() && features.requires_grad());
  }

  [[nodiscard]] Features project(const Share& share, const at::Tensor& patches) {
    const at::Tensor rows = vision_.project(patches, share.own.grids, keep_.projector);
    if (share.route) return {(*share.route)(rows), share.route->places()};
    if (share.own.places.size(0) == 0)
      return {ops::select_rows(rows, share.own.places), share.own.places};
    return {rows, share.own.places};
  }

  /// The features of the replica that this tp rank keeps.
  [[nodiscard]] Features own_features(const Features& all, std::int64_t tokens) const {
    const at::Tensor places = all.places - layout().tp().index() * tokens;
    const at::Tensor own = places.ge(0).logical_and(places.lt(tokens)).nonzero().squeeze(1);
    return {ops::select_rows(parallel::copy_to_ranks(all.rows, layout().tp()), own),
            places.index_select(0, own)};
  }

  [[nodiscard]] Grid smallest_grid() const {
    return {1, config_.vision->merge, config_.vision->merge};
  }
  /// The smallest input of the tower, whose features take no place.
  [[nodiscard]] EncoderInput smallest_input() const {
    const at::Device device = units().front()->whole_options().device();
    return {at::zeros({smallest_grid().patches(), config_.vision->patch_width()},
                      at::TensorOptions(device).dtype(at::kFloat)),
            {smallest_grid()}};
  }

  [[nodiscard]] Media gather_media(const PackedBatch& batch) const {
    const at::Tensor images =
        places_of(batch.input_ids, config_.tokens.image_pad, batch.image_grids, "images");
    const at::Tensor videos =
        places_of(batch.input_ids, config_.tokens.video_pad, batch.video_grids, "clips");
    if (apart() == nullptr) {
      require_rows(batch.pixel_values, batch.image_grids, "images");
      require_rows(batch.pixel_values_videos, batch.video_grids, "clips");
    }
    if (batch.video_grids.empty()) return {batch.pixel_values, batch.image_grids, images};
    if (batch.image_grids.empty()) return {batch.pixel_values_videos, batch.video_grids, videos};
    Media media{{}, batch.image_grids, at::cat({images, videos})};
    if (batch.pixel_values.defined())
      media.rows = at::cat({batch.pixel_values, batch.pixel_values_videos});
    media.grids.insert(media.grids.end(), batch.video_grids.begin(), batch.video_grids.end());
    return media;
  }

  /// The places of the placeholders `pad`; there must be as many as features.
  [[nodiscard]] at::Tensor places_of(const at::Tensor& input_ids, std::int64_t pad,
                                     std::span<const Grid> grids, const char* kind) const {
    const std::int64_t merge = config_.vision->merge;
    std::int64_t expected = 0;
    for (const Grid& grid : grids) expected += grid.patches() / (merge * merge);
    at::Tensor places = input_ids.eq(pad).nonzero().squeeze(1);
    TRIB_REQUIRE(places.size(0) == expected,
                 .what = "model: placeholders and media differ in number",
                 .where = str(kind, ", token ", pad),
                 .found = str(places.size(0), " placeholders in the text"),
                 .expected = str(expected, " for ", grids.size(), " ", kind));
    return places;
  }

  /// Each kind is checked by itself: a surplus of one must not make up for a lack of the other.
  static void require_rows(const at::Tensor& rows, std::span<const Grid> grids, const char* kind) {
    std::int64_t expected = 0;
    for (const Grid& grid : grids) expected += grid.patches();
    const std::int64_t found = rows.defined() ? rows.size(0) : 0;
    TRIB_REQUIRE(found == expected, .what = "model: pixel rows and grids differ in number",
                 .where = kind, .found = str(found, " rows"),
                 .expected = str(expected, " for ", grids.size(), " ", kind));
  }

  VisionKeep keep_;
  Qwen2_5VlVision vision_;
  Backbone backbone_;
};

}  // namespace

std::unique_ptr<Model> make_qwen2_5_vl(const config::ModelConfig& config,
                                       const ModelLayout& layouts) {
  return std::make_unique<Qwen2_5Vl>(config, layouts);
}

}  // namespace tributary::model
