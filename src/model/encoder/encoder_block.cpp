#include "model/encoder/encoder_block.h"

#include <ATen/ATen.h>

#include "ops/swiglu.h"
#include "parallel/observe_attention.h"
#include "parallel/split.h"

namespace tributary::model {
namespace {

using parallel::Bias;
using parallel::Cut;
using parallel::Linear;
using parallel::LinearShape;

LinearShape shape_of(const BlockStyle& style, std::int64_t in, std::int64_t out, Cut cut) {
  return {.in = in, .out = out, .bias = Bias::kZeros, .deviation = style.deviation, .cut = cut};
}

}  // namespace

EncoderBlock::EncoderBlock(const BlockStyle& style, const std::string& prefix, parallel::Unit& unit)
    : unit_(unit),
      heads_(parallel::local_heads(unit.layout(), style.heads)),
      head_width_(style.head_width()),
      activation_(style.activation),
      norm1_(unit, prefix + style.norm1, style.width, style.norm_epsilon,
             parallel::NormOver::kTokens, style.norm),
      out_([&] {
        declare_qkv(style, prefix);
        return Linear(unit, prefix + style.out,
                      shape_of(style, style.width, style.width, Cut::kRows));
      }()),
      norm2_(unit, prefix + style.norm2, style.width, style.norm_epsilon,
             parallel::NormOver::kTokens, style.norm),
      last_([&] {
        const LinearShape in = shape_of(style, style.width, style.mlp_width, Cut::kColumns);
        if (!style.activation)
          gate_up_.emplace(unit,
                           std::vector<std::string>{prefix + style.mlp[0], prefix + style.mlp[1]},
                           std::vector<parallel::Heads>{{style.mlp_width}, {style.mlp_width}}, in);
        else
          first_.emplace(unit, prefix + style.mlp[0], in);
        return Linear(unit, prefix + style.mlp.back(),
                      shape_of(style, style.mlp_width, style.width, Cut::kRows));
      }()) {
  for (const std::string& name : style.scales)
    scales_.push_back(
        &unit.declare(prefix + name, {style.width},
                      {.kind = parallel::Initializer::Kind::kConstant, .deviation = style.scale},
                      parallel::replicated(unit.layout(), /*uses_part=*/false)));
}

void EncoderBlock::declare_qkv(const BlockStyle& style, const std::string& prefix) {
  const parallel::Heads heads{style.heads, style.head_width()};
  LinearShape shape = shape_of(style, style.width, 3 * style.width, Cut::kColumns);
  if (!style.qkv_bias) shape.bias = Bias::kNone;
  if (style.qkv.size() == 1) {
    shape.heads = {heads.count, heads.width, 3};
    qkv_.emplace(unit_, prefix + style.qkv.front(), shape);
  } else {
    std::vector<std::string> names;
    for (const std::string& name : style.qkv) names.push_back(prefix + name);
    std::vector<parallel::Heads> outs(names.size(), heads);
    outs[1].has_bias = style.has_key_bias;
    joined_qkv_.emplace(unit_, names, outs, shape);
  }
  for (const std::string& name : style.qk_norm)
    qk_norm_.emplace_back(unit_, prefix + name, heads, style.qk_epsilon);
}

at::Tensor EncoderBlock::run(const at::Tensor& hidden, const BlockContext& context,
                             std::shared_ptr<const void> owner) const {
  const auto scaled = [this](std::size_t branch, const at::Tensor& x) {
    return scales_.empty() ? x : x * scales_[branch]->value;
  };
  return parallel::run_layer(
      unit_, keep_, hidden, [this, context, scaled, owner = std::move(owner)](const at::Tensor& x) {
        const at::Tensor attended = x + scaled(0, attend(x, context, owner));
        return attended + scaled(1, run_mlp(attended));
      });
}

at::Tensor EncoderBlock::project(const at::Tensor& x) const {
  const at::Tensor qkv =
      (qkv_ ? (*qkv_)(x) : (*joined_qkv_)(x)).view({x.size(0), 3 * heads_, head_width_});
  if (qk_norm_.empty()) return qkv;
  const std::vector<at::Tensor> parts = qkv.split(heads_, 1);
  return at::cat({qk_norm_[0](parts[0]), qk_norm_[1](parts[1]), parts[2]}, 1);
}

at::Tensor EncoderBlock::attend(const at::Tensor& x, const BlockContext& context,
                                std::shared_ptr<const void> owner) const {
  const auto run = [this, context, owner = std::move(owner)](const at::Tensor& hidden) {
    const at::Tensor qkv = project(norm1_(hidden));
    const at::Tensor rotated =
        context.rotary == nullptr ? qkv : ops::rotate_heads(qkv, *context.rotary, 2 * heads_);
    const at::Tensor attended = parallel::observe_attention(
        unit_.layout().chain.get(), rotated, [&](const at::Tensor& heads) {
          return ops::attend_packed(heads, heads_, heads_, context.groups);
        });
    return out_(attended.reshape({hidden.size(0), heads_ * head_width_}));
  };
  return parallel::run_part(unit_, keep_, parallel::LayerPart::kAttention, x, run);
}

at::Tensor EncoderBlock::run_mlp(const at::Tensor& x) const {
  return parallel::run_part(
      unit_, keep_, parallel::LayerPart::kMlp, x, [this](const at::Tensor& hidden) {
        const at::Tensor normalised = norm2_(hidden);
        return last_(gate_up_ ? ops::swiglu((*gate_up_)(normalised))
                              : ops::activate((*first_)(normalised), *activation_));
      });
}

void set_keep(std::span<const std::unique_ptr<EncoderBlock>> blocks, parallel::LayerKeep keep) {
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i]->set_keep(keep.of(static_cast<std::int64_t>(i)));
}

}  // namespace tributary::model
