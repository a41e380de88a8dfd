#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/embedding.h"
#include "parallel/parameter.h"

namespace tributary::parallel {

/// Hidden states -> logits, by a weight of its own or by the embedding's (tied).
class LanguageHead {
 public:
  LanguageHead(Unit& unit, const std::string& name, std::int64_t vocab, std::int64_t width,
               double deviation);
  explicit LanguageHead(const Embedding& tied) : weight_(&tied.weight()) {}
  /// shape: hidden [rows, width] -> returns [rows, vocab]
  [[nodiscard]] at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  Parameter* weight_;
};

}  // namespace tributary::parallel
