#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/backbone.h"
#include "model/encoder/qwen2_5_vl_vision.h"
#include "model/family/all_families.h"

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
  explicit Qwen2_5Vl(const config::ModelConfig& config)
      : Model(config),
        vision_(config_.vision.value(), units_),
        backbone_(config_.backbone, "model.", units_) {}

  at::Tensor forward(const PackedBatch& batch) override {
    return backbone_.forward(embed(batch), batch.position_ids, batch.cu_seqlens);
  }
  at::Tensor head(const at::Tensor& hidden) override { return backbone_.head(hidden); }

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
  /// shape: returns [tokens, width]
  [[nodiscard]] at::Tensor embed(const PackedBatch& batch) {
    const at::Tensor embedded = backbone_.embed(batch.input_ids);
    const Media media = gather_media(batch);
    if (media.grids.empty()) return embedded;
    const at::Tensor features = vision_(media.rows, media.grids, keep_);
    // Places are unique, so unlike an accumulating scatter this does not depend on threads.
    return embedded.index_copy(0, media.places, features.to(embedded.scalar_type()));
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

std::unique_ptr<Model> make_qwen2_5_vl(const config::ModelConfig& config) {
  return std::make_unique<Qwen2_5Vl>(config);
}

}  // namespace tributary::model
