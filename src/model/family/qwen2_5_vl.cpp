#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/backbone.h"
#include "model/encoder/qwen2_5_vl_vision.h"
#include "model/family/all_families.h"
#include "model/pad_to_split.h"
#include "ops/select_rows.h"
#include "parallel/token_exchange.h"

namespace tributary::model {
namespace {

using parallel::Keep;

/// Images and clips of a pack as one input of the tower.
struct Media {
  at::Tensor rows;          // [patches, patch_width]
  std::vector<Grid> grids;  // images, then clips
  at::Tensor places;        // [merged tokens] i64: the placeholder of each feature row
};

/// Qwen2.5-VL: vision features take the places of the placeholders among the embedded tokens.
class Qwen2_5Vl final : public Model {
 public:
  Qwen2_5Vl(const config::ModelConfig& config, const parallel::Layout& layout)
      : Model(config, layout),
        vision_(config_.vision.value(), layout_, units_),
        backbone_(config_.backbone, "model.", layout_, units_) {}

  at::Tensor forward(const PackedBatch& whole) override {
    const PackedBatch batch = pad_to_split(whole, layout_);
    return backbone_.forward(embed(batch), batch.position_ids, batch.cu_seqlens);
  }
  at::Tensor head(const at::Tensor& hidden) override { return backbone_.head(hidden); }
  const parallel::LanguageHead& language_head() const override { return backbone_.language_head(); }

  at::Tensor prefill(const PackedBatch& batch, KvCache& cache) override {
    const at::NoGradGuard no_grad;
    return backbone_.prefill(embed(batch), batch.position_ids, batch.cu_seqlens, cache);
  }
  at::Tensor decode(const at::Tensor& token_ids, KvCache& cache) override {
    return backbone_.decode(token_ids, cache);
  }

  void set_recompute(std::span<const std::string> modules) override {
    const auto keep_of = [&](const char* module) {
      return std::ranges::find(modules, module) != modules.end() ? Keep::kInput
                                                                 : Keep::kActivations;
    };
    keep_ = {.vision = keep_of("vision"), .projector = keep_of("projector")};
    backbone_.set_keep(keep_of("backbone"));
  }

 private:
  /// shape: returns [tokens that this rank keeps, width]
  [[nodiscard]] at::Tensor embed(const PackedBatch& batch) {
    Media media = gather_media(batch);
    // Other ranks of the shard group may hold media: all gather the tower's parameters alike.
    if (media.grids.empty() && !layout_.mesh->shard().is_single()) media = no_media(batch);
    if (media.grids.empty()) return backbone_.embed(batch.input_ids);
    at::Tensor features = vision_(media.rows, media.grids, keep_);
    const at::Tensor embedded = backbone_.embed(batch.input_ids);
    if (layout_.splits_tokens()) {
      const std::int64_t first = layout_.tp().index() * embedded.size(0);
      const at::Tensor places = media.places - first;
      const at::Tensor own =
          places.ge(0).logical_and(places.lt(embedded.size(0))).nonzero().squeeze(1);
      features = parallel::copy_to_ranks(features, layout_.tp());
      media.places = places.index_select(0, own);
      features = ops::select_rows(features, own);
    } else if (media.places.size(0) < features.size(0)) {
      features = ops::select_rows(features, at::empty({0}, media.places.options()));
    }
    // Places are unique, so unlike an accumulating scatter this does not depend on threads.
    return embedded.index_copy(0, media.places, features.to(embedded.scalar_type()));
  }

  /// The smallest input of the tower, whose features take no place.
  [[nodiscard]] Media no_media(const PackedBatch& batch) const {
    const config::VisionConfig& vision = *config_.vision;
    const auto side = static_cast<std::int32_t>(vision.merge);
    return {at::zeros({vision.merge * vision.merge, vision.patch_width()},
                      batch.input_ids.options().dtype(at::kFloat)),
            {Grid{1, side, side}},
            at::empty({0}, batch.input_ids.options())};
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
