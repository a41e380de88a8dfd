#pragma once

#include <functional>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/master_shards.h"

namespace tributary::train {

/// How some of the parameters are updated. It owns its moments; the masters outlive it.
class UpdateRule {
 public:
  /// Says which parameters a rule takes.
  using Takes = std::function<bool(const parallel::Parameter& parameter)>;

  UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;
  virtual ~UpdateRule() = default;

  /// Updates the masters of its parameters from their gradients times `gradient_factor`, of one
  /// unit or (null) of all. The count of updates of the masters includes this one.
  virtual void update(double learning_rate, double gradient_factor, const parallel::Unit* only) = 0;
  /// Appends its moments of a parameter, if it takes that.
  virtual void append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                            std::vector<NamedTensor>& state) const = 0;
  /// Called when the tensors of append_state were overwritten.
  virtual void restore() {}
};

}  // namespace tributary::train
