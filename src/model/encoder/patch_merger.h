#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "parallel/layer_boundary.h"
#include "parallel/linear.h"
#include "parallel/norm.h"
#include "parallel/unit.h"

namespace tributary::model {

/// Joins merge x merge patches into one token of the backbone: norm, two linear maps with a GELU
/// between them. The norm is over each patch, or over the joined ones; some have none.
class PatchMerger {
 public:
  struct Style {
    std::string norm = {};  // the ends of the parameters' names; empty: no norm
    std::string first;
    std::string second;
    parallel::NormKind kind = parallel::NormKind::kLayer;
    bool norms_joined = false;
    double epsilon = 1e-6;
    bool bias = true;
  };
  PatchMerger(const config::VisionConfig& config, const Style& style, const std::string& prefix,
              parallel::Unit& unit);

  /// `arrange` gets the tokens and returns what the backbone takes, inside the boundary of the
  /// unit; null: the tokens. shape: patches [patches, width], those of a token consecutive ->
  /// [tokens, output_width]
  [[nodiscard]] at::Tensor run(const at::Tensor& patches, parallel::Keep keep,
                               parallel::LayerBody arrange = {}) const;

 private:
  parallel::Unit& unit_;
  std::int64_t joined_;  // width of the patches of a token
  bool norms_joined_;
  std::optional<parallel::Norm> norm_;
  parallel::Linear first_;
  parallel::Linear second_;
};

}  // namespace tributary::model
