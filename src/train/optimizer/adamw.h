#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/run/run_config.h"
#include "parallel/unit.h"
#include "train/optimizer/optimizer.h"

namespace tributary::train {

/// Adam with decoupled weight decay over this rank's shards of trainable units.
///
/// dtype:  values f32 are updated in place; values bf16 have f32 masters, from which they are
///         rounded after each step; moments are always f32
/// owns:   the moments (and masters), one flat buffer each per unit, laid out like the values
/// errors: Fault::kInput from the constructor when a parameter group matches nothing
/// source: Loshchilov 2019, "Decoupled weight decay regularization", algorithm 2
class AdamW : public Optimizer {
 public:
  AdamW(std::span<const std::unique_ptr<parallel::Unit>> units,
        const config::OptimizerSection& settings);

  [[nodiscard]] std::string kind() const override { return "adamw"; }
  void step(double learning_rate, double gradient_factor) override;
  [[nodiscard]] std::int64_t steps() const override { return steps_; }
  /// Names: exp_avg.<parameter>, exp_avg_sq.<parameter>, step.<parameter> (f32 scalar) and, for
  /// bf16, master.<parameter>. restore() sets the count, so writing into `step` changes nothing.
  [[nodiscard]] std::vector<NamedTensor> state() const override;
  void restore(std::int64_t steps) override;

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
