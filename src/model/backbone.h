#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/model_config.h"
#include "model/decoder_layer.h"
#include "model/kv_cache.h"
#include "parallel/embedding.h"
#include "parallel/language_head.h"
#include "parallel/layer_boundary.h"
#include "parallel/norm.h"

namespace tributary::model {

/// The decoder-only language model that encoders feed: token embedding, layers, norm, head.
///
/// It takes embedded inputs, so that a family can put vision features in their places first.
class Backbone {
 public:
  /// Appends its units: backbone.embed, backbone.layers.<n>, backbone.head. `prefix` begins the
  /// names of all parameters but the head's: model.
  Backbone(const config::BackboneConfig& config, const std::string& prefix,
           const parallel::Layout& layout, std::vector<std::unique_ptr<parallel::Unit>>& units);
  Backbone(const Backbone&) = delete;
  Backbone& operator=(const Backbone&) = delete;

  /// shape: token_ids [tokens] i64 -> returns [tokens, width]
  [[nodiscard]] at::Tensor embed(const at::Tensor& token_ids) const;

  /// shape: embedded [tokens that this rank keeps, width], position_ids [3, tokens of the pack] i64
  ///        -> returns the final hidden states, shaped as embedded, normalised
  [[nodiscard]] at::Tensor forward(const at::Tensor& embedded, const at::Tensor& position_ids,
                                   const parallel::TokenSplit& split) const;
  /// shape: hidden [rows, width] -> returns [rows, vocab]
  [[nodiscard]] at::Tensor head(const at::Tensor& hidden) const;
  [[nodiscard]] const parallel::LanguageHead& language_head() const { return *head_; }

  /// Runs whole prompts and starts the cache with them.
  /// shape: returns the final hidden state of each sample's last token [samples, width]
  [[nodiscard]] at::Tensor prefill(const at::Tensor& embedded, const at::Tensor& position_ids,
                                   std::span<const std::int32_t> cu_seqlens, KvCache& cache) const;
  /// shape: token_ids [samples] i64 -> returns [samples, width]
  [[nodiscard]] at::Tensor decode(const at::Tensor& token_ids, KvCache& cache) const;

  void set_keep(parallel::Keep keep);

 private:
  [[nodiscard]] std::shared_ptr<const PackContext> context_of(
      const at::Tensor& embedded, const at::Tensor& position_ids,
      const parallel::TokenSplit& split) const;
  [[nodiscard]] at::Tensor normalise(const at::Tensor& hidden) const;

  config::BackboneConfig config_;
  parallel::Keep keep_ = parallel::Keep::kActivations;
  std::optional<parallel::Embedding> embedding_;
  parallel::Unit* embedding_unit_ = nullptr;
  std::vector<parallel::Unit*> layer_units_;
  parallel::Unit* head_unit_ = nullptr;
  std::vector<DecoderLayer> layers_;
  std::optional<parallel::Norm> final_norm_;
  std::optional<parallel::LanguageHead> head_;
};

}  // namespace tributary::model
