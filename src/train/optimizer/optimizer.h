#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "parallel/unit.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/gradient_norm.h"
#include "train/optimizer/master_shards.h"
#include "train/optimizer/update_rule.h"
#include "train/optimizer/weight_copy.h"

namespace tributary::train {

/// What one update did, in squares of this rank's share.
struct UpdateSquares {
  ModuleSquares change;      // of the parameters: new - old
  ModuleSquares parameters;  // before it
};

/// Updates this rank's shards of the trainable units from their gradients, by the rules of its
/// kind.
///
/// Everything that a resumed run needs lies in state() and steps(): a checkpoint saves state() as
/// it is, so its names and shapes are part of the checkpoint format.
/// owns: its state; the units belong to the model, which outlives the optimizer
class Optimizer {
 public:
  /// `keeps_start`: keeps the values that the parameters have now, as a reference.
  /// errors: Fault::kInput when a parameter group matches nothing, and when Muon has no matrix
  Optimizer(std::span<const std::unique_ptr<parallel::Unit>> units,
            const config::OptimizerSection& settings, bool keeps_start = false);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// What a checkpoint calls the algorithm: a run resumes only from one with the same kind.
  [[nodiscard]] const std::string& kind() const { return kind_; }

  /// Updates every parameter from its gradient times `gradient_factor`; gradients stay unchanged
  /// or are scaled.
  /// stream: the host does not wait
  /// collective: over shard and tp, with Muon
  void step(double learning_rate, double gradient_factor);
  /// The same, bit for bit, and says how far the parameters moved.
  /// stream: the host waits
  /// cost:   one more copy of the largest unit's shard for the time of the update
  [[nodiscard]] UpdateSquares measured_step(double learning_rate, double gradient_factor);

  /// Updates done so far; skipped steps do not count.
  [[nodiscard]] std::int64_t steps() const { return steps_; }

  /// Views of the state, named `<what it is>.<parameter>`; writing into them restores it. Beside
  /// those of the rules: step.<parameter> (f32 scalar; restore() sets it), master.<parameter> of
  /// bf16 parameters, ema.<parameter> with optimizer.ema_decay, and reference.<parameter>.
  [[nodiscard]] std::vector<NamedTensor> state() const;
  /// Call it after the state's tensors were overwritten: sets the count of updates, and the values
  /// of parameters that have a master.
  void restore(std::int64_t steps);

  /// The averaged weights of optimizer.ema_decay; null without.
  [[nodiscard]] WeightCopy* average() { return average_ ? &*average_ : nullptr; }
  /// The values at the start of the run; null unless they are kept.
  [[nodiscard]] WeightCopy* reference() { return reference_ ? &*reference_ : nullptr; }

 private:
  void begin_step();
  void end_step();
  void update(double learning_rate, double gradient_factor, const parallel::Unit* only);

  std::span<const std::unique_ptr<parallel::Unit>> units_;
  MasterShards masters_;
  std::vector<std::unique_ptr<UpdateRule>> rules_;
  std::optional<WeightCopy> average_;
  std::optional<WeightCopy> reference_;
  double average_gain_ = 0;  // of the parameters in the average, an update
  std::string kind_;
  std::int64_t steps_ = 0;
};

/// Makes the optimizer of the configuration.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(
    const config::OptimizerSection& settings,
    std::span<const std::unique_ptr<parallel::Unit>> units, bool keeps_start = false);

}  // namespace tributary::train
