#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/run/run_config.h"
#include "parallel/unit.h"
#include "train/checkpoint/checkpoint.h"

namespace tributary::train {

/// Adam with decoupled weight decay over this rank's shards of trainable units.
///
/// dtype:  values f32 are updated in place; values bf16 have f32 masters, from which they are
///         rounded after each step; moments are always f32
/// owns:   the moments (and masters), one flat buffer each per unit, laid out like the values
/// errors: Fault::kInput from the constructor when a parameter group matches nothing
/// source: Loshchilov 2019, "Decoupled weight decay regularization", algorithm 2
class AdamW {
 public:
  AdamW(std::span<const std::unique_ptr<parallel::Unit>> units,
        const config::OptimizerSection& settings);

  /// Updates every parameter from its gradient times `gradient_factor`; gradients stay unchanged
  /// or are scaled.
  /// stream: the host does not wait
  void step(double learning_rate, double gradient_factor);

  /// Updates done so far; skipped steps do not count.
  [[nodiscard]] std::int64_t steps() const { return steps_; }

  /// Views of the state under exp_avg.<name>, exp_avg_sq.<name>, step.<name> (f32 scalar) and, for
  /// bf16, master.<name>; writing into the views of moments and masters restores them.
  [[nodiscard]] std::vector<NamedTensor> state() const;
  /// After the state's tensors were overwritten: sets the count of updates and, for bf16, the
  /// values.
  void restore(std::int64_t steps);

 private:
  /// The buffers of one unit.
  struct UnitState {
    parallel::Unit* unit = nullptr;
    at::Tensor master;    // f32 [elements of the shard]; the values themselves when they are f32
    at::Tensor gradient;  // f32 [elements]; the unit's own when it is f32
    at::Tensor exp_avg;
    at::Tensor exp_avg_sq;
  };
  /// Neighbouring parameters of one rule, as views that the fused kernel takes.
  struct Group {
    double learning_rate_scale = 1;
    double weight_decay = 0;
    std::vector<at::Tensor> values;
    std::vector<at::Tensor> gradients;
    std::vector<at::Tensor> exp_avgs;
    std::vector<at::Tensor> exp_avg_sqs;
    std::vector<at::Tensor> steps;  // all the same f32 scalar
  };

  void add_unit(parallel::Unit& unit, const config::OptimizerSection& settings);
  Group& group_of(double learning_rate_scale, double weight_decay);
  void add_run(const UnitState& state, parallel::Range run, Group& group);
  /// Rounds the masters into the values and forgets gathered copies of them.
  void publish_values();

  double beta1_;
  double beta2_;
  double epsilon_;
  std::int64_t steps_ = 0;
  at::Tensor step_count_;  // f32 scalar that the fused kernel reads
  std::vector<UnitState> units_;
  std::vector<Group> groups_;
};

}  // namespace tributary::train
