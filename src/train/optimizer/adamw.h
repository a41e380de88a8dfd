#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/run/run_config.h"
#include "train/optimizer/update_rule.h"

namespace tributary::train {

/// Adam with decoupled weight decay.
///
/// dtype:  moments are f32
/// owns:   two moments for each run of neighbouring parameters under one rule
/// source: Loshchilov 2019, "Decoupled weight decay regularization", algorithm 2
class AdamW : public UpdateRule {
 public:
  AdamW(const MasterShards& masters, const config::OptimizerSection& settings, const Takes& takes);

  void update(double learning_rate, double gradient_factor, const parallel::Unit* only) override;
  /// Names: exp_avg.<parameter>, exp_avg_sq.<parameter>.
  void append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                    std::vector<NamedTensor>& state) const override;

 private:
  /// Neighbouring parameters of a unit.
  struct Run {
    const parallel::Unit* unit = nullptr;
    parallel::Range range;  // in the shard
    at::Tensor exp_avg;     // f32 [range]
    at::Tensor exp_avg_sq;
  };
  /// Runs of one rule, as views that the fused kernel takes.
  struct Group {
    double learning_rate_scale = 1;
    double weight_decay = 0;
    std::vector<const parallel::Unit*> units;  // of each run; those of one unit are neighbours
    std::vector<at::Tensor> values;
    std::vector<at::Tensor> gradients;
    std::vector<at::Tensor> exp_avgs;
    std::vector<at::Tensor> exp_avg_sqs;
    std::vector<at::Tensor> steps;  // all the same f32 scalar
  };

  void add_shard(const MasterShard& shard, const config::OptimizerSection& settings);
  Group& group_of(double learning_rate_scale, double weight_decay);
  void add_run(const MasterShard& shard, parallel::Range range, Group& group);

  double beta1_;
  double beta2_;
  double epsilon_;
  Takes takes_;
  at::Tensor step_count_;
  std::vector<Run> runs_;
  std::vector<Group> groups_;
};

}  // namespace tributary::train
