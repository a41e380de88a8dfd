#include "train/optimizer/optimizer.h"

#include "train/optimizer/adamw.h"

namespace tributary::train {

std::unique_ptr<Optimizer> make_optimizer(const config::OptimizerSection& settings,
                                          std::span<const std::unique_ptr<parallel::Unit>> units) {
  return std::make_unique<AdamW>(units, settings);
}

}  // namespace tributary::train
