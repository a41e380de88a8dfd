#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "model/decoder_layer.h"
#include "model/kv_cache.h"
#include "parallel/embedding.h"
#include "parallel/language_head.h"
#include "parallel/layer_boundary.h"
#include "parallel/norm.h"

namespace tributary::model {

/// What checkpoints call the parameters of a backbone.
struct BackboneNames {
  std::string prefix = "model.";  // of all but the head
  std::string head = "lm_head";
};

/// The decoder-only language model that encoders feed: token embedding, layers, norm, head.
///
/// It takes embedded inputs, so that a family can put vision features in their places first. Where
/// a pipeline cuts it, each virtual stage runs its layers; the final norm belongs to the head.
class Backbone {
 public:
  /// Appends its units: backbone.embed, backbone.layers.<n>, backbone.head.
  ///
  /// A head that is tied to an embedding on another rank is a copy of it, backbone.tied_head.
  Backbone(const config::BackboneConfig& config, const BackboneNames& names,
           const parallel::Layout& layout, std::vector<std::unique_ptr<parallel::Unit>>& units);
  Backbone(const Backbone&) = delete;
  Backbone& operator=(const Backbone&) = delete;

  /// shape: token_ids [tokens] i64 -> returns [tokens, width]; on the first stage
  [[nodiscard]] at::Tensor embed(const at::Tensor& token_ids) const;

  /// shape: hidden [tokens that this rank keeps, input_width(stage)] of the stage before, or
  ///        embedded; position_ids [3, tokens of the pack] i64 -> returns
  ///        [tokens, input_width(stage + 1)]
  [[nodiscard]] at::Tensor forward(int stage, const at::Tensor& hidden,
                                   const at::Tensor& position_ids,
                                   const parallel::TokenSplit& split) const;
  /// Runs `body` on the normalised hidden states, while the head's weight is whole. Norm and body
  /// share one boundary, so that a unit which holds both is gathered once.
  /// shape: hidden [rows, width], which `body` gets normalised -> returns what it returns; on the
  ///        last stage
  [[nodiscard]] at::Tensor run_head(const at::Tensor& hidden, parallel::LayerBody body) const;
  [[nodiscard]] const parallel::LanguageHead& language_head() const { return *head_; }

  /// Runs whole prompts and starts the cache with them.
  /// shape: returns [tokens, width]; of the last stage the final hidden state of each sample's last
  ///        token [samples, width]
  [[nodiscard]] at::Tensor prefill(int stage, const at::Tensor& hidden,
                                   const at::Tensor& position_ids,
                                   std::span<const std::int32_t> cu_seqlens, KvCache& cache) const;
  /// shape: hidden [samples, width] of the newest tokens -> returns [samples, width]
  [[nodiscard]] at::Tensor decode(int stage, const at::Tensor& hidden, KvCache& cache) const;

  void set_keep(parallel::LayerKeep keep);

  /// The width of what a stage takes. Level k of features is added behind layer k; until then it
  /// lies beside the hidden states.
  [[nodiscard]] std::int64_t input_width(int stage) const;

 private:
  /// Hidden states and the levels that are still to be added.
  struct Stream {
    at::Tensor hidden;
    std::vector<at::Tensor> levels;  // of the layers from the next on
  };
  [[nodiscard]] Stream take(const at::Tensor& input) const;
  [[nodiscard]] static at::Tensor join(const Stream& stream);
  /// Adds the level of the layer that has just run.
  static void add_level(Stream& stream);

  [[nodiscard]] const parallel::Layout& layout() const { return embedding_unit_->layout(); }
  /// Layers [first, end) of a virtual stage.
  struct Layers {
    std::size_t first = 0;
    std::size_t end = 0;
  };
  [[nodiscard]] Layers layers_of(int stage) const;
  [[nodiscard]] int stage_of(std::int64_t layer) const;
  [[nodiscard]] bool is_last(int stage) const { return stage + 1 == layout().virtual_stages(); }
  void add_head(const BackboneNames& names, const parallel::Layout& layout,
                std::vector<std::unique_ptr<parallel::Unit>>& units);
  [[nodiscard]] std::shared_ptr<const PackContext> context_of(
      const at::Tensor& hidden, const at::Tensor& position_ids,
      const parallel::TokenSplit& split) const;

  config::BackboneConfig config_;
  std::optional<parallel::Embedding> embedding_;
  parallel::Unit* embedding_unit_ = nullptr;
  std::vector<parallel::Unit*> layer_units_;
  parallel::Unit* head_unit_ = nullptr;
  std::vector<DecoderLayer> layers_;
  std::optional<parallel::Norm> final_norm_;
  std::optional<parallel::LanguageHead> head_;
};

}  // namespace tributary::model
