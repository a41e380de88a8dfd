#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/unit.h"

namespace tributary::parallel {

/// One row of `name`.weight [vocab, width] for each token. Over tp each rank holds some rows.
class Embedding {
 public:
  Embedding(Unit& unit, const std::string& name, std::int64_t vocab, std::int64_t width,
            double deviation);
  /// shape:  token_ids [tokens] i64 of all tp ranks -> returns [tokens that this rank keeps, width]
  /// collective: over tp
  /// errors: Fault::kInput naming the first id outside [0, vocab), on CPU
  [[nodiscard]] at::Tensor operator()(const at::Tensor& token_ids) const;
  [[nodiscard]] Parameter& weight() const { return *weight_; }

 private:
  const Layout* layout_;
  Parameter* weight_;
};

}  // namespace tributary::parallel
