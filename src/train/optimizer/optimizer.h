#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "parallel/unit.h"
#include "train/checkpoint/checkpoint.h"

namespace tributary::train {

/// Updates this rank's shards of the trainable units from their gradients.
///
/// Everything that a resumed run needs lies in state() and steps(): a checkpoint saves state() as
/// it is, so its names and shapes are part of the checkpoint format.
/// owns: its state; the units belong to the model, which outlives the optimizer
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// What a checkpoint calls the algorithm: a run resumes only from one with the same kind.
  [[nodiscard]] virtual std::string kind() const = 0;

  /// Updates every parameter from its gradient times `gradient_factor`; gradients stay unchanged
  /// or are scaled.
  /// stream: the host does not wait
  virtual void step(double learning_rate, double gradient_factor) = 0;

  /// Updates done so far; skipped steps do not count.
  [[nodiscard]] virtual std::int64_t steps() const = 0;

  /// Views of the state, named `<what it is>.<parameter>`; writing into them restores it.
  [[nodiscard]] virtual std::vector<NamedTensor> state() const = 0;
  /// Call it after the state's tensors were overwritten: sets the count of updates, and the values
  /// of parameters that have a master.
  virtual void restore(std::int64_t steps) = 0;
};

/// Makes the optimizer of the configuration; the only place that chooses one.
///
/// errors: Fault::kInput when a parameter group matches nothing
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(
    const config::OptimizerSection& settings,
    std::span<const std::unique_ptr<parallel::Unit>> units);

}  // namespace tributary::train
