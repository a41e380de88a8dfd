#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/layout.h"

namespace tributary::parallel {

/// The weight gradients of one microbatch on one virtual stage, put off while its input gradient is
/// computed: so backward-input and backward-weight are two actions.
///
/// owns: the inputs and output gradients of its linear maps, until they have run
class WeightQueue {
 public:
  void push(std::function<void()> work) { work_.push_back(std::move(work)); }
  [[nodiscard]] bool empty() const { return work_.empty(); }
  /// Adds everything to the gradients, in the order of the backward pass.
  void run();

 private:
  std::vector<std::function<void()>> work_;
};

/// While it lives, backward passes of the layout's units put their weight gradients off.
class PutOff {
 public:
  PutOff(const Layout& layout, WeightQueue& queue);
  ~PutOff();
  PutOff(const PutOff&) = delete;
  PutOff& operator=(const PutOff&) = delete;

 private:
  UnitChain* chain_;
};

/// x W^T + b as ops::linear, with a weight gradient that can be put off. Not for the head: the
/// queue would keep its output gradient, which is as wide as the vocabulary.
///
/// shape:  x [rows, in], weight [out, in] and bias [out] leaves whose gradients are there (Unit)
/// dtype:  gradients have the same bits, put off or not
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, const Layout& layout);

}  // namespace tributary::parallel
