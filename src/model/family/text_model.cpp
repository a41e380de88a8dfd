#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/backbone.h"
#include "model/family/all_families.h"

namespace tributary::model {
namespace {

/// The text models Qwen2, Qwen2.5 (bias on query, key and value) and Qwen3 (norms on the heads of
/// query and key): a backbone and nothing else.
class TextModel final : public Model {
 public:
  TextModel(const config::ModelConfig& config, const ModelLayout& layouts)
      : Model(config, layouts), backbone_(config.backbone, {"model."}, layout(), units_) {}

  at::Tensor run_stage(int stage, const PackedBatch& batch, const StageInput& input) override {
    require_text(batch);
    const parallel::TokenSplit split(batch.cu_seqlens, layout());
    const at::Tensor hidden =
        stage == 0 ? backbone_.embed(split.keep(batch.input_ids, /*padding=*/0)) : input.hidden;
    return backbone_.forward(stage, hidden, batch.position_ids, split);
  }
  at::Tensor run_head(const at::Tensor& hidden, parallel::LayerBody body) override {
    return backbone_.run_head(hidden, std::move(body));
  }
  const parallel::LanguageHead& language_head() const override { return backbone_.language_head(); }

  at::Tensor prefill_stage(int stage, const PackedBatch& batch, const StageInput& input,
                           KvCache& cache) override {
    require_text(batch);
    return backbone_.prefill(stage, stage == 0 ? backbone_.embed(batch.input_ids) : input.hidden,
                             batch.position_ids, batch.cu_seqlens, cache);
  }
  at::Tensor decode_stage(int stage, const at::Tensor& token_ids, const at::Tensor& input,
                          KvCache& cache) override {
    return backbone_.decode(stage, stage == 0 ? backbone_.embed(token_ids) : input, cache);
  }

  void set_keep(const parallel::KeepOf& keep_of) override {
    backbone_.set_keep(keep_of("backbone"));
  }

 private:
  static void require_text(const PackedBatch& batch) {
    TRIB_REQUIRE(!batch.has_media(),
                 .what = "model: a text model cannot take images, clips or sounds",
                 .found = str(batch.of(Modality::kImage).grids.size(), " images, ",
                              batch.of(Modality::kVideo).grids.size(), " clips, ",
                              batch.of(Modality::kAudio).grids.size(), " sounds"),
                 .fix = "use a model with an encoder, such as Qwen2.5-VL or Qwen2-Audio");
  }

  Backbone backbone_;
};

}  // namespace

std::unique_ptr<Model> make_text_model(const config::ModelConfig& config,
                                       const ModelLayout& layouts) {
  return std::make_unique<TextModel>(config, layouts);
}

}  // namespace tributary::model
