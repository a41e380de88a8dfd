#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/embedding.h"
#include "parallel/unit.h"

namespace tributary::parallel {

/// Hidden states -> logits or losses, by a weight of its own or by the embedding's (tied).
class LanguageHead {
 public:
  LanguageHead(Unit& unit, const std::string& name, std::int64_t vocab, std::int64_t width,
               double deviation);
  LanguageHead(Unit& unit, const Embedding& tied);
  /// shape: hidden [rows, width] -> returns [rows, vocab]
  /// collective: over tp; differentiable only on one tp rank
  [[nodiscard]] at::Tensor operator()(const at::Tensor& hidden) const;
  /// The cross entropy of each row without logits of the whole vocabulary on any rank.
  ///
  /// shape: hidden [rows, width], alike on all tp ranks; targets [rows] i64 -> returns [rows] f32
  /// collective: over tp; the gradient of `hidden` is this rank's part of a sum
  /// source: Shoeybi 2019, "Megatron-LM" (arXiv:1909.08053), section 3
  [[nodiscard]] at::Tensor losses(const at::Tensor& hidden, const at::Tensor& targets) const;
  /// Where the weight lies: whole around every call.
  [[nodiscard]] Unit& unit() const { return *unit_; }
  [[nodiscard]] Parameter& weight() const { return *weight_; }

 private:
  Unit* unit_;
  Parameter* weight_;
};

}  // namespace tributary::parallel
