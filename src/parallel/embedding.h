#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/parameter.h"

namespace tributary::parallel {

/// One row of `name`.weight [vocab, width] for each token.
class Embedding {
 public:
  Embedding(Unit& unit, const std::string& name, std::int64_t vocab, std::int64_t width,
            double deviation);
  /// shape:  token_ids [tokens] i64 -> returns [tokens, width]
  /// errors: Fault::kInput naming the first id outside [0, vocab), on CPU
  [[nodiscard]] at::Tensor operator()(const at::Tensor& token_ids) const;
  [[nodiscard]] Parameter& weight() const { return *weight_; }

 private:
  Parameter* weight_;
};

}  // namespace tributary::parallel
