#pragma once

#include <memory>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "ops/rotary.h"
#include "parallel/layer_boundary.h"
#include "parallel/linear.h"
#include "parallel/norm.h"
#include "parallel/sequence/pack_attention.h"

namespace tributary::model {

/// What all layers share about one pack.
struct PackContext {
  ops::RotaryTable rotary;
  parallel::PackAttention attention;
};

/// One transformer block: pre-norm attention with grouped queries, pre-norm SwiGLU.
class DecoderLayer {
 public:
  /// `prefix` names its parameters: model.layers.3
  DecoderLayer(parallel::Unit& unit, const config::BackboneConfig& config,
               const std::string& prefix);

  /// shape: hidden [tokens that this rank keeps, width] -> returns the same
  [[nodiscard]] at::Tensor operator()(const at::Tensor& hidden,
                                      const std::shared_ptr<const PackContext>& context) const;
  /// What it keeps for backward.
  [[nodiscard]] parallel::Keep keep() const { return keep_; }
  void set_keep(parallel::Keep keep) { keep_ = keep; }

  struct LocalHeads {
    std::int64_t queries = 0;
    std::int64_t keys = 0;  // and values
  };
  /// The numbers of heads that this tp rank computes.
  [[nodiscard]] LocalHeads local_heads() const { return heads_; }

  // The two halves around attention, for decoding with a cache. Heads are those of this rank.
  /// shape: returns rotated queries and keys, and values [tokens, heads + 2 * kv_heads, head_width]
  [[nodiscard]] at::Tensor project(const at::Tensor& hidden, const ops::RotaryTable& rotary) const;
  /// shape: attended [tokens, heads, head_width] -> returns [tokens, width]
  [[nodiscard]] at::Tensor finish(const at::Tensor& hidden, const at::Tensor& attended) const;

 private:
  [[nodiscard]] at::Tensor normalise_heads(const at::Tensor& heads) const;
  /// As project and attend, but each projection travels while the next one is computed.
  [[nodiscard]] at::Tensor attend_early(const at::Tensor& hidden, const PackContext& context) const;
  /// The two halves, of which the second adds what it gives to its input.
  /// shape: [tokens that this rank keeps, width] -> returns the same
  [[nodiscard]] at::Tensor attend(const at::Tensor& hidden, const PackContext& context) const;
  [[nodiscard]] at::Tensor add_mlp(const at::Tensor& hidden) const;

  const parallel::Unit* unit_;
  config::BackboneConfig config_;
  parallel::Keep keep_ = parallel::Keep::kActivations;
  LocalHeads heads_;
  parallel::Norm attention_norm_;
  parallel::JoinedLinear query_key_value_;
  std::optional<parallel::Norm> query_norm_;
  std::optional<parallel::Norm> key_norm_;
  parallel::Linear attention_out_;
  parallel::Norm mlp_norm_;
  parallel::JoinedLinear gate_up_;
  parallel::Linear down_;
};

}  // namespace tributary::model
