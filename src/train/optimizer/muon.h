#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "config/run/run_config.h"
#include "train/optimizer/update_rule.h"

namespace tributary::train {

/// The nearest semi-orthogonal matrix, roughly: five Newton-Schulz steps bring all singular values
/// to about 1.
///
/// shape:  matrix [out, in], not 0 -> returns the same
/// dtype:  of the products f32 on a CPU, bf16 on a CUDA device; returns f32
/// source: Jordan 2024, "Muon: An optimizer for hidden layers in neural networks"
[[nodiscard]] at::Tensor orthogonalise(const at::Tensor& matrix);

/// Momentum whose update of each matrix is made orthogonal, with decoupled weight decay.
///
/// The update is scaled by 0.2 sqrt(max(out, in)), so that its entries are as large as those of
/// AdamW: learning rate and decay are those that AdamW would have. A matrix is a parameter of a
/// checkpoint; each rank that holds a part of it computes the update of the whole.
///
/// dtype:  momentum is f32, one value for each parameter
/// cost:   an all-reduce of the matrices of each unit over shard and tp, and about
///         30 * out * in * min(out, in) FLOP for each matrix on each rank
/// source: Jordan 2024 (as above); Liu 2025, "Muon is scalable for LLM training"
///         (arXiv:2502.16982), section 2.2, for decay and scale
class Muon : public UpdateRule {
 public:
  /// errors: Fault::kInput when it takes no parameter
  Muon(const MasterShards& masters, const config::OptimizerSection& settings, const Takes& takes);

  /// collective: over shard and tp of each unit with matrices
  void update(double learning_rate, double gradient_factor, const parallel::Unit* only) override;
  /// Names: momentum.<parameter>.
  void append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                    std::vector<NamedTensor>& state) const override;

 private:
  struct Matrix {
    const parallel::Parameter* parameter = nullptr;
    parallel::Range own;  // of it in the shard
    double learning_rate_scale = 1;
    double weight_decay = 0;
    at::Tensor momentum;     // f32 [own]
    std::int64_t first = 0;  // of its elements among those of the unit's matrices
  };
  struct UnitMatrices {
    MasterShard shard;
    std::vector<Matrix> matrices;
    std::int64_t elements = 0;  // of all whole matrices
  };
  void add_shard(const MasterShard& shard, const config::OptimizerSection& settings);
  void update_unit(UnitMatrices& unit, double learning_rate, double gradient_factor) const;
  /// The updates of all matrices of a unit before they are made orthogonal.
  /// shape: returns [elements] f32. collective: over shard and tp
  [[nodiscard]] at::Tensor gather_updates(UnitMatrices& unit, double gradient_factor) const;

  double momentum_;
  Takes takes_;
  std::vector<UnitMatrices> units_;
};

}  // namespace tributary::train
