#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/optimizer/master_shards.h"

namespace tributary::train {

/// A second set of values for all trainable parameters, which starts as they are. It can take their
/// place: as averaged weights, or as the reference of a loss.
///
/// owns: `bytes of a value` for each parameter of this rank's shards, beside the masters
class WeightCopy {
 public:
  enum class Values { kWide, kAsParameters };  // f32, or of the parameters' dtype

  /// `name`: what checkpoints call it
  WeightCopy(MasterShards& masters, std::string name, Values values);

  /// Moves each value by a share of its distance to the parameter; only with wide values.
  void move_to_parameters(double share);
  /// Names: <name>.<parameter>.
  void append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                    std::vector<NamedTensor>& state) const;
  /// Puts the values into the place of the parameters, or at the second call back. Another copy
  /// with values as the parameters may be exchanged between the two calls.
  void exchange();

 private:
  MasterShards& masters_;
  std::string name_;
  std::vector<at::Tensor> values_;  // [elements], by shard
  bool in_place_ = false;           // of the parameters
};

/// While it lives the model computes with the values of a copy; null: with its parameters.
class InPlace {
 public:
  explicit InPlace(WeightCopy* copy) : copy_(copy) {
    if (copy_ != nullptr) copy_->exchange();
  }
  ~InPlace() {
    if (copy_ != nullptr) copy_->exchange();
  }
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;

 private:
  WeightCopy* copy_;
};

}  // namespace tributary::train
