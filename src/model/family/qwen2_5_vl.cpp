#include <algorithm>

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
  Qwen2_5Vl(const config::ModelConfig& config, const parallel::Layout& layout)
      : Model(config, layout),
        vision_(config_.vision.value(), layout_, units_),
        backbone_(config_.backbone, "model.", layout_, units_) {}

  at::Tensor forward(const PackedBatch& batch) override {
    const parallel::TokenSplit split(batch.cu_seqlens, layout_);
    return backbone_.forward(embed(batch, split), batch.position_ids, split);
  }
  at::Tensor head(const at::Tensor& hidden) override { return backbone_.head(hidden); }
  const parallel::LanguageHead& language_head() const override { return backbone_.language_head(); }

  at::Tensor prefill(const PackedBatch& batch, KvCache& cache) override {
    const at::NoGradGuard no_grad;
    const parallel::TokenSplit split(batch.cu_seqlens, layout_);
    return backbone_.prefill(embed(batch, split), batch.position_ids, batch.cu_seqlens, cache);
  }
  at::Tensor decode(const at::Tensor& token_ids, KvCache& cache) override {
    return backbone_.decode(token_ids, cache);
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

  /// shape: returns [tokens that this rank keeps, width]
  [[nodiscard]] at::Tensor embed(const PackedBatch& batch, const parallel::TokenSplit& split) {
    const at::Tensor ids = split.keep(batch.input_ids, /*padding=*/0);
    const Media media = gather_media(batch);
    if (media.grids.empty() && layout_.mesh->shard().is_single()) return backbone_.embed(ids);
    Features features = encode(media, split);
    const at::Tensor embedded = backbone_.embed(ids);
    if (layout_.splits_tokens()) features = own_features(features, embedded.size(0));
    // Places are unique, so unlike an accumulating scatter this does not depend on threads.
    return embedded.index_copy(0, features.places, features.rows.to(embedded.scalar_type()));
  }

  /// Runs the tower, on ranks without media too: others of the shard group may hold some, and all
  /// gather the tower's parameters alike.
  [[nodiscard]] Features encode(const Media& media, const parallel::TokenSplit& split) {
    if (media.grids.empty()) {
      const Media none = no_media(media.places);
      return {ops::select_rows(vision_(none.rows, none.grids, keep_), none.places), none.places};
    }
    if (!layout_.splits_sequence()) return {vision_(media.rows, media.grids, keep_), media.places};
    MediaShare share = share_media(media, config_.vision->merge, split, layout_);
    if (share.own.grids.empty()) share.own = no_media(media.places);
    return {share.route(vision_(share.own.rows, share.own.grids, keep_)), share.route.places()};
  }

  /// Of a replica's features those that this tp rank keeps.
  [[nodiscard]] Features own_features(const Features& all, std::int64_t tokens) const {
    const at::Tensor places = all.places - layout_.tp().index() * tokens;
    const at::Tensor own = places.ge(0).logical_and(places.lt(tokens)).nonzero().squeeze(1);
    return {ops::select_rows(parallel::copy_to_ranks(all.rows, layout_.tp()), own),
            places.index_select(0, own)};
  }

  /// The smallest input of the tower, whose features take no place.
  [[nodiscard]] Media no_media(const at::Tensor& places) const {
    const config::VisionConfig& vision = *config_.vision;
    const auto side = static_cast<std::int32_t>(vision.merge);
    return {at::zeros({vision.merge * vision.merge, vision.patch_width()},
                      places.options().dtype(at::kFloat)),
            {Grid{1, side, side}},
            at::empty({0}, places.options())};
  }

  [[nodiscard]] Media gather_media(const PackedBatch& batch) const {
    const at::Tensor images =
        places_of(batch.input_ids, config_.tokens.image_pad, batch.image_grids, "images");
    const at::Tensor videos =
        places_of(batch.input_ids, config_.tokens.video_pad, batch.video_grids, "clips");
    require_rows(batch.pixel_values, batch.image_grids, "images");
    require_rows(batch.pixel_values_videos, batch.video_grids, "clips");
    if (batch.video_grids.empty()) return {batch.pixel_values, batch.image_grids, images};
    if (batch.image_grids.empty()) return {batch.pixel_values_videos, batch.video_grids, videos};
    Media media{at::cat({batch.pixel_values, batch.pixel_values_videos}), batch.image_grids,
                at::cat({images, videos})};
    media.grids.insert(media.grids.end(), batch.video_grids.begin(), batch.video_grids.end());
    return media;
  }

  /// Where the placeholders `pad` stand; their number must be that of the features.
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
                                       const parallel::Layout& layout) {
  return std::make_unique<Qwen2_5Vl>(config, layout);
}

}  // namespace tributary::model
