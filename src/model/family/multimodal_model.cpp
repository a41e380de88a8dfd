#include "model/family/multimodal_model.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/backbone.h"
#include "model/encoder/media.h"
#include "ops/select_rows.h"
#include "ops/to_device.h"
#include "parallel/token_exchange.h"

namespace tributary::model {
namespace {

class MultimodalModel final : public Model {
 public:
  MultimodalModel(const config::ModelConfig& config, const ModelLayout& layouts,
                  const MakeEncoders& make_encoders, const BackboneNames& names)
      : Model(config, layouts),
        parts_(make_encoders(config_, [this](const std::string& module) { return place(module); })),
        backbone_(config_.backbone, names, layout(), units_) {}

  at::Tensor run_stage(int stage, const PackedBatch& batch, const StageInput& input) override {
    const parallel::TokenSplit split(batch.cu_seqlens, layout());
    return backbone_.forward(stage, enter(stage, batch, input, split), batch.position_ids, split);
  }
  std::int64_t input_width(int stage) const override { return backbone_.input_width(stage); }

  at::Tensor run_encoder_stage(const std::string& module, int stage, const EncoderInput& media,
                               const at::Tensor& input) override {
    Encoder& encoder = *part_of(module).encoder;
    const EncoderInput some = media.grids.empty() ? smallest_input(encoder) : media;
    return encoder.run_tower(stage, input.defined() ? input : some.rows, some.grids);
  }
  at::Tensor empty_encoder_input(const std::string& module, int stage,
                                 const EncoderInput& media) const override {
    const Encoder& encoder = *part_of(module).encoder;
    std::int64_t rows = 0;
    for (const Grid& grid : media.grids) rows += encoder.rows_between(grid);
    return at::empty({rows > 0 ? rows : encoder.rows_between(encoder.smallest_item()),
                      encoder.input_width(stage)},
                     units().front()->whole_options());
  }
  std::int64_t feature_rows(const std::string& module, const Grid& item) const override {
    return part_of(module).encoder->features_of(item);
  }
  std::int64_t feature_width(const std::string& module) const override {
    return part_of(module).encoder->feature_width();
  }
  at::Tensor run_head(const at::Tensor& hidden, parallel::LayerBody body) override {
    return backbone_.run_head(hidden, std::move(body));
  }
  const parallel::LanguageHead& language_head() const override { return backbone_.language_head(); }

  at::Tensor prefill_stage(int stage, const PackedBatch& batch, const StageInput& input,
                           KvCache& cache) override {
    const parallel::TokenSplit split(batch.cu_seqlens, layout());
    return backbone_.prefill(stage, enter(stage, batch, input, split), batch.position_ids,
                             batch.cu_seqlens, cache);
  }
  at::Tensor decode_stage(int stage, const at::Tensor& token_ids, const at::Tensor& input,
                          KvCache& cache) override {
    return backbone_.decode(stage, stage == 0 ? backbone_.embed(token_ids) : input, cache);
  }

  void set_keep(const parallel::KeepOf& keep_of) override {
    for (const EncoderPart& part : parts_) part.encoder->set_keep(keep_of);
    backbone_.set_keep(keep_of("backbone"));
  }

 private:
  /// Tokens that an encoder made and the rows of this rank's embedded tokens that they take.
  struct MediaTokens {
    at::Tensor rows;
    at::Tensor places;
  };
  /// What this rank encodes of a pack, and where the features go.
  struct Share {
    Media own;
    std::optional<parallel::RowRoute> route;  // where ranks share a pack
    bool is_idle = false;                     // own holds only the smallest input
  };

  [[nodiscard]] const parallel::Layout* apart(const std::string& module) const {
    const auto own = layouts_.encoders.find(module);
    return own == layouts_.encoders.end() ? nullptr : &own->second;
  }
  [[nodiscard]] EncoderPlace place(const std::string& module) {
    return {.apart = apart(module), .first_stage = layout().at_stage(0), .units = &units_};
  }
  [[nodiscard]] const EncoderPart& part_of(const std::string& module) const {
    const auto part = std::ranges::find(parts_, module, &EncoderPart::module);
    TRIB_CHECK(part != parts_.end(), .what = "model: family has no encoder of this name",
               .found = module);
    return *part;
  }

  /// What the layers of a stage take: hidden states, at the first one the embedded tokens with
  /// those of media in their places.
  /// shape: returns [tokens that this rank keeps, input_width(stage)]; without media in a decode
  ///        or a run on one rank, [tokens, width]
  [[nodiscard]] at::Tensor enter(int stage, const PackedBatch& batch, const StageInput& input,
                                 const parallel::TokenSplit& split) {
    if (stage > 0) return input.hidden;
    const at::Tensor ids = split.keep(batch.input_ids, /*padding=*/0);
    std::vector<MediaTokens> found;
    for (const EncoderPart& part : parts_) {
      const Media media = gather_media(part, batch);
      if (media.grids.empty() && layout().mesh->shard().is_single()) continue;
      const Share share = share_of(part, media, split);
      found.push_back(project(part, share, features_of(part, share, input.features)));
    }
    at::Tensor hidden = backbone_.embed(ids);
    const std::int64_t tokens = hidden.size(0);
    const bool has_levels = !found.empty() || layout().virtual_stages() > 1;
    if (has_levels && input_width(0) > hidden.size(1))
      hidden = at::constant_pad_nd(hidden, {0, input_width(0) - hidden.size(1)});
    for (MediaTokens& media : found) {
      if (layout().splits_tokens()) media = own_tokens(media, tokens);
      // Places are unique, so unlike an accumulating scatter this does not depend on threads.
      hidden = hidden.index_copy(0, media.places, media.rows.to(hidden.scalar_type()));
    }
    return hidden;
  }

  /// The media that this rank encodes. One without media encodes something too: others of the shard
  /// group may hold some, and all must gather the tower's parameters alike.
  [[nodiscard]] Share share_of(const EncoderPart& part, const Media& media,
                               const parallel::TokenSplit& split) const {
    Share share{.own = media, .route = std::nullopt};
    if (!share.own.grids.empty() && layout().splits_sequence()) {
      MediaShare own = share_media(share.own, *part.encoder, split, layout(), device());
      share = {.own = std::move(own.own), .route = std::move(own.route)};
      share.own.places = share.route->places();
    }
    if (!share.own.grids.empty()) return share;
    EncoderInput smallest = smallest_input(*part.encoder);
    const at::Tensor places =
        share.route ? share.route->places() : at::empty({0}, share.own.places.options());
    share.own = {std::move(smallest.rows), std::move(smallest.grids), places};
    share.is_idle = true;
    return share;
  }

  /// What the projector takes. `apart_made`: the features of encoders with ranks of their own. One
  /// with a layout of its own runs here where the batch has its input rows.
  [[nodiscard]] at::Tensor features_of(const EncoderPart& part, const Share& share,
                                       const Features& apart_made) {
    Encoder& encoder = *part.encoder;
    if (apart(part.module) == nullptr || (!share.is_idle && share.own.rows.defined()))
      return encoder.run_tower(/*stage=*/0, share.own.rows, share.own.grids);
    if (!share.is_idle) return apart_made.at(part.module);
    const auto given = apart_made.find(part.module);
    // It needs a gradient where features do: the route sends gradients on all ranks or on none.
    return at::zeros({encoder.features_of(encoder.smallest_item()), encoder.feature_width()},
                     units().front()->whole_options())
        .requires_grad_(given != apart_made.end() && given->second.requires_grad());
  }

  [[nodiscard]] static MediaTokens project(const EncoderPart& part, const Share& share,
                                           const at::Tensor& features) {
    const at::Tensor rows = part.encoder->project(features, share.own.grids);
    if (share.route) return {(*share.route)(rows), share.route->places()};
    const at::Tensor places = ops::to_device(share.own.places, rows.device());
    return {places.size(0) == 0 ? ops::select_rows(rows, places) : rows, places};
  }

  /// The media tokens of the replica that this tp rank keeps.
  [[nodiscard]] MediaTokens own_tokens(const MediaTokens& all, std::int64_t tokens) const {
    const at::Tensor places = all.places - layout().tp().index() * tokens;
    const at::Tensor own = places.ge(0).logical_and(places.lt(tokens)).nonzero().squeeze(1);
    return {ops::select_rows(parallel::copy_to_ranks(all.rows, layout().tp()), own),
            places.index_select(0, own)};
  }

  /// The smallest input of a tower, whose features take no place.
  [[nodiscard]] EncoderInput smallest_input(const Encoder& encoder) const {
    const Grid item = encoder.smallest_item();
    return {at::zeros({item.patches(), encoder.row_width()},
                      at::TensorOptions(device()).dtype(at::kFloat)),
            {item}};
  }

  /// The media of a pack that an encoder takes, in the order of `takes`.
  [[nodiscard]] Media gather_media(const EncoderPart& part, const PackedBatch& batch) const {
    Media media;
    std::vector<at::Tensor> rows;
    std::vector<at::Tensor> places;
    for (const Placeholder& kind : part.takes) {
      const EncoderInput& own = batch.of(kind.modality);
      places.push_back(places_of(*part.encoder, kind, batch.input_ids, own.grids));
      if (apart(part.module) == nullptr) require_rows(own, kind.items);
      if (own.rows.defined()) rows.push_back(own.rows);
      media.grids.insert(media.grids.end(), own.grids.begin(), own.grids.end());
    }
    media.places = places.size() == 1 ? places.front() : at::cat(places);
    if (!rows.empty()) media.rows = rows.size() == 1 ? rows.front() : at::cat(rows);
    return media;
  }

  /// The places of placeholders; there must be as many as tokens of the items.
  [[nodiscard]] static at::Tensor places_of(const Encoder& encoder, const Placeholder& kind,
                                            const at::Tensor& input_ids,
                                            std::span<const Grid> grids) {
    std::int64_t expected = 0;
    for (const Grid& grid : grids) expected += encoder.tokens_of(grid);
    at::Tensor places = input_ids.eq(kind.token).nonzero().squeeze(1);
    TRIB_REQUIRE(places.size(0) == expected,
                 .what = "model: placeholders and media differ in number",
                 .where = str(kind.items, ", token ", kind.token),
                 .found = str(places.size(0), " placeholders in the text"),
                 .expected = str(expected, " for ", grids.size(), " ", kind.items));
    return places;
  }

  /// Each kind is checked by itself: a surplus of one must not make up for a lack of the other.
  static void require_rows(const EncoderInput& own, const char* items) {
    std::int64_t expected = 0;
    for (const Grid& grid : own.grids) expected += grid.patches();
    const std::int64_t found = own.rows.defined() ? own.rows.size(0) : 0;
    TRIB_REQUIRE(found == expected, .what = "model: input rows and grids differ in number",
                 .where = items, .found = str(found, " rows"),
                 .expected = str(expected, " for ", own.grids.size(), " ", items));
  }

  std::vector<EncoderPart> parts_;
  Backbone backbone_;
};

}  // namespace

std::unique_ptr<Model> make_multimodal_model(const config::ModelConfig& config,
                                             const ModelLayout& layouts,
                                             const MakeEncoders& make_encoders,
                                             const BackboneNames& names) {
  return std::make_unique<MultimodalModel>(config, layouts, make_encoders, names);
}

}  // namespace tributary::model
