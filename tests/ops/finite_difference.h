#pragma once

#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace tributary::ops {

/// Returns the max |autograd - central difference| over all elements of all inputs, relative to the
/// max difference quotient, for the scalar sum(function(inputs) * weights) with random weights.
///
/// dtype: inputs in f64; steps of 1e-6 then leave about 1e-9
inline double gradient_error(
    const std::function<at::Tensor(const std::vector<at::Tensor>&)>& function,
    std::vector<at::Tensor> inputs) {
  for (at::Tensor& input : inputs) input = input.detach().clone().requires_grad_();
  const at::Tensor out = function(inputs);
  const at::Tensor weights = at::linspace(-1, 1.3, out.numel(), out.options()).view(out.sizes());
  torch::autograd::backward({at::sum(out * weights)});

  const at::NoGradGuard no_grad;
  const auto value = [&] { return at::sum(function(inputs) * weights).item<double>(); };
  double worst = 0;
  double largest = 0;
  for (at::Tensor& input : inputs) {
    double* data = input.data_ptr<double>();
    const at::Tensor gradient = input.grad().contiguous();
    for (std::int64_t i = 0; i < input.numel(); ++i) {
      constexpr double kStep = 1e-6;
      const double before = data[i];
      data[i] = before + kStep;
      const double high = value();
      data[i] = before - kStep;
      const double low = value();
      data[i] = before;
      const double quotient = (high - low) / (2 * kStep);
      largest = std::max(largest, std::abs(quotient));
      worst = std::max(worst, std::abs(quotient - gradient.const_data_ptr<double>()[i]));
    }
  }
  return worst / largest;
}

inline at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype = at::kDouble) {
  return at::randn(shape, at::TensorOptions().dtype(dtype));
}

/// Largest absolute difference.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return at::max(at::abs(a.to(at::kDouble) - b.to(at::kDouble))).item<double>();
}

inline double largest(const at::Tensor& tensor) { return at::max(at::abs(tensor)).item<double>(); }

}  // namespace tributary::ops
