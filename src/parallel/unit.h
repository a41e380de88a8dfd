#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mesh/transport/group.h"
#include "parallel/layout.h"
#include "parallel/parameter.h"

namespace tributary::parallel {

/// The parameters of one layer in one flat buffer: the smallest piece that is placed, frozen,
/// sharded and saved.
///
/// Every rank of the shard group keeps an equal part of the buffer, its shard. Around each use of
/// the layer one all-gather makes the whole values, of which the parameters are views; after its
/// backward one reduce-scatter adds the whole gradient to the shard's. On one rank the shard is the
/// whole, and neither happens.
///
/// states: SHARDED -> gathering -> WHOLE -> SHARDED; a count of holders keeps it whole
class Unit {
 public:
  /// `module` is vision, projector or backbone; `name` is unique in the model: backbone.layers.3
  Unit(std::string module, std::string name, const Layout& layout = {});
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// Adds a parameter; only before materialize. The address stays valid as long as the unit lives.
  Parameter& declare(std::string name, std::vector<std::int64_t> shape, Initializer initializer,
                     Split split = {});
  /// Adds parameters of the shapes [rows[i], tail...], back to back in the flat buffer.
  JoinedParameters& declare_joined(const std::vector<std::string>& names,
                                   const std::vector<std::int64_t>& rows,
                                   const std::vector<std::int64_t>& tail, Initializer initializer,
                                   const std::vector<Split>& splits = {});

  /// The unit of the adapters beside this one's linear maps, made at the first call; only before
  /// materialize. It is gathered, reduced and released with this one, whose parameters are then
  /// frozen.
  [[nodiscard]] Unit& adapter();
  [[nodiscard]] bool has_adapter() const { return adapter_ != nullptr; }
  [[nodiscard]] bool is_adapter() const { return is_adapter_; }
  /// Gives the unit of the adapters to the list of all units, which outlives this one; null when
  /// there is none.
  [[nodiscard]] std::unique_ptr<Unit> give_adapter() { return std::move(own_adapter_); }

  /// Allocates the shard and, when trainable, its gradient (zeros). Values are not initialised. Of
  /// a unit of another pipeline stage this rank knows the parameters and holds nothing.
  ///
  /// Every parameter but the later ones of a joined group starts at a multiple of 64 bytes; what
  /// lies between is 0. The gradient of a joined group reaches its parts through the shared memory.
  void materialize(at::Device device, at::ScalarType dtype, bool trainable);

  [[nodiscard]] const std::string& module() const { return module_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] bool trainable() const { return trainable_; }
  /// Whether its parameters or those of adapters beside them get gradients.
  [[nodiscard]] bool needs_backward() const {
    return trainable_ || (adapter_ != nullptr && adapter_->trainable_);
  }
  [[nodiscard]] bool is_here() const { return layout_.is_here(); }
  [[nodiscard]] const std::vector<std::unique_ptr<Parameter>>& parameters() const {
    return parameters_;
  }

  // This rank's shard. Padding elements are 0 and have gradient 0.
  [[nodiscard]] const at::Tensor& shard_value() const { return shard_value_; }        // [elements]
  [[nodiscard]] const at::Tensor& shard_gradient() const { return shard_gradient_; }  // or none
  /// The dtype of the parameters and the device that computes with them.
  [[nodiscard]] at::TensorOptions whole_options() const { return whole_value_.options(); }
  /// Elements of the shard that belong to a parameter.
  [[nodiscard]] Range range_of(const Parameter& parameter) const;
  /// These elements as boxes of the whole parameter; `first` counts within the shard.
  [[nodiscard]] std::vector<PlacedBox> boxes_of(const Parameter& parameter) const;
  /// Puts this rank's elements of a local part into the shard. shape: local as local_shape()
  void set_own_part(const Parameter& parameter, const at::Tensor& local);
  /// The part of the gradient that belongs to a parameter, in its local shape; undefined when
  /// frozen. Only where the shard is the whole.
  [[nodiscard]] at::Tensor gradient_of(const Parameter& parameter) const;

  // Whole values. collective: over shard, unless the unit is whole already.
  void acquire();
  void release();
  /// Starts to gather the values without holding them.
  void start_gather();
  /// Starts the gathers of the units that run after this one, forward or backward.
  void prefetch_next();
  void prefetch_previous();
  /// Forgets whole values, since the shard has changed.
  void discard();
  /// Whether the parameters' memory is the shard itself and no other rank has a gradient for it:
  /// then there is nothing to gather or to reduce.
  [[nodiscard]] bool is_direct() const;

  // Gradients, called by the layer boundary.
  void expect_backward();
  [[nodiscard]] bool expects_backward() const { return backwards_due_ > 0; }
  /// Makes the values whole, and a gradient to add to: zeros at the first use of a microbatch.
  void begin_backward();
  /// Starts the reduction after the last use, unless the chain reduces once a step.
  /// collective: over shard
  void end_backward();
  /// Only the second part of end_backward, where weight gradients come after the values are freed.
  void end_gradient();
  /// Starts to reduce the whole gradient, if there is one. collective: over shard
  void start_reduction();
  void finish_reduction();
  /// Whether no backward of this step adds to the shard's gradient any more.
  [[nodiscard]] bool is_complete() const { return is_complete_; }
  /// Sets the gradient to zero before the first microbatch of a step.
  void clear_gradient();

 private:
  /// A gradient to add to: zeros at the first use of a microbatch.
  void begin_gradient();
  [[nodiscard]] at::Tensor make_leaf(std::int64_t offset, at::IntArrayRef shape) const;
  [[nodiscard]] std::int64_t assign_offsets(std::int64_t step);
  void materialize_elsewhere(const at::TensorOptions& options, at::ScalarType gradient_dtype);
  [[nodiscard]] std::int64_t shard_begin() const;
  void complete();

  std::string module_;
  std::string name_;
  Layout layout_;
  std::size_t place_ = 0;              // in the chain
  std::unique_ptr<Unit> own_adapter_;  // until it is given away
  Unit* adapter_ = nullptr;
  bool is_adapter_ = false;
  bool trainable_ = false;
  bool values_are_direct_ = true;
  bool gradients_are_direct_ = true;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<std::unique_ptr<JoinedParameters>> joined_;
  std::vector<std::size_t> starts_;  // parameters that begin at an aligned offset
  at::Tensor shard_value_;
  at::Tensor shard_gradient_;
  at::Tensor whole_value_;     // the shard itself, or memory taken while whole
  at::Tensor whole_gradient_;  // likewise
  int holders_ = 0;
  bool is_whole_ = false;
  mesh::Pending gathering_;
  int backwards_due_ = 0;
  bool has_whole_gradient_ = false;
  mesh::Pending reducing_;
  at::Tensor reduced_;  // [shard elements] the sum that arrives
  bool is_complete_ = false;
};

/// Keeps a unit whole as long as it lives.
class Whole {
 public:
  explicit Whole(Unit& unit) : unit_(unit) { unit_.acquire(); }
  ~Whole() { unit_.release(); }
  Whole(const Whole&) = delete;
  Whole& operator=(const Whole&) = delete;

 private:
  Unit& unit_;
};

}  // namespace tributary::parallel
