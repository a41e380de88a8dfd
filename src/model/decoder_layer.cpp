#include "model/decoder_layer.h"

#include <ATen/ATen.h>

#include "ops/swiglu.h"
#include "parallel/split.h"

namespace tributary::model {
namespace {

using config::BackboneConfig;
using parallel::Norm;

std::optional<Norm> head_norm(parallel::Unit& unit, const BackboneConfig& config,
                              const std::string& name) {
  if (!config.qk_norm) return std::nullopt;
  return Norm(unit, name, config.head_width, config.norm_epsilon, parallel::NormOver::kHeads);
}

}  // namespace

DecoderLayer::DecoderLayer(parallel::Unit& unit, const BackboneConfig& config,
                           const std::string& prefix)
    : unit_(&unit),
      config_(config),
      heads_{parallel::local_heads(unit.layout(), config.heads),
             parallel::local_heads(unit.layout(), config.kv_heads)},
      attention_norm_(unit, prefix + ".input_layernorm", config.width, config.norm_epsilon),
      query_key_value_(unit,
                       {prefix + ".self_attn.q_proj", prefix + ".self_attn.k_proj",
                        prefix + ".self_attn.v_proj"},
                       {{config.heads, config.head_width},
                        {config.kv_heads, config.head_width},
                        {config.kv_heads, config.head_width}},
                       {.in = config.width,
                        .bias = config.qkv_bias ? parallel::Bias::kZeros : parallel::Bias::kNone,
                        .deviation = config.initializer_range}),
      query_norm_(head_norm(unit, config, prefix + ".self_attn.q_norm")),
      key_norm_(head_norm(unit, config, prefix + ".self_attn.k_norm")),
      attention_out_(unit, prefix + ".self_attn.o_proj",
                     {.in = config.heads * config.head_width,
                      .out = config.width,
                      .deviation = config.initializer_range,
                      .cut = parallel::Cut::kRows}),
      mlp_norm_(unit, prefix + ".post_attention_layernorm", config.width, config.norm_epsilon),
      gate_up_(unit, {prefix + ".mlp.gate_proj", prefix + ".mlp.up_proj"},
               {{config.mlp_width}, {config.mlp_width}},
               {.in = config.width, .deviation = config.initializer_range}),
      down_(unit, prefix + ".mlp.down_proj",
            {.in = config.mlp_width,
             .out = config.width,
             .deviation = config.initializer_range,
             .cut = parallel::Cut::kRows}) {}

at::Tensor DecoderLayer::normalise_heads(const at::Tensor& heads) const {
  const auto parts = heads.split_with_sizes({heads_.queries, heads_.keys, heads_.keys}, 1);
  return at::cat({(*query_norm_)(parts[0]), (*key_norm_)(parts[1]), parts[2]}, 1);
}

at::Tensor DecoderLayer::project(const at::Tensor& hidden, const ops::RotaryTable& rotary) const {
  at::Tensor heads = query_key_value_(attention_norm_(hidden))
                         .view({-1, heads_.queries + 2 * heads_.keys, config_.head_width});
  if (query_norm_) heads = normalise_heads(heads);
  return ops::rotate_heads(heads, rotary, heads_.queries + heads_.keys);
}

at::Tensor DecoderLayer::attend_early(const at::Tensor& hidden, const PackContext& context) const {
  const at::Tensor x = query_key_value_.gather(attention_norm_(hidden));
  const auto start = [&](std::size_t part, const std::optional<Norm>& norm, bool rotates) {
    at::Tensor heads = query_key_value_.part(part, x).unflatten(1, {-1, config_.head_width});
    if (norm) heads = (*norm)(heads);
    if (rotates) heads = ops::rotate_heads(heads, context.rotary, heads.size(1));
    return context.attention.start(heads);
  };
  const parallel::Travelling queries = start(0, query_norm_, true);
  const parallel::Travelling keys = start(1, key_norm_, true);
  const parallel::Travelling values = start(2, std::nullopt, false);
  return context.attention.attend(queries, keys, values);
}

at::Tensor DecoderLayer::attend(const at::Tensor& hidden, const PackContext& context) const {
  const at::Tensor attended =
      context.attention.exchanges_early()
          ? attend_early(hidden, context)
          : context.attention(project(hidden, context.rotary), heads_.queries, heads_.keys);
  return attention_out_(attended.flatten(1));
}

at::Tensor DecoderLayer::add_mlp(const at::Tensor& hidden) const {
  return hidden + parallel::run_part(*unit_, keep_, parallel::LayerPart::kMlp, hidden,
                                     [this](const at::Tensor& x) {
                                       return down_(ops::swiglu(gate_up_(mlp_norm_(x))));
                                     });
}

at::Tensor DecoderLayer::finish(const at::Tensor& hidden, const at::Tensor& attended) const {
  return add_mlp(hidden + attention_out_(attended.flatten(1)));
}

at::Tensor DecoderLayer::operator()(const at::Tensor& hidden,
                                    const std::shared_ptr<const PackContext>& context) const {
  return add_mlp(hidden + parallel::run_part(*unit_, keep_, parallel::LayerPart::kAttention, hidden,
                                             [this, context](const at::Tensor& x) {
                                               return attend(x, *context);
                                             }));
}

}  // namespace tributary::model
