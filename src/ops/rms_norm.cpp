#include "ops/rms_norm.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/cpu/row_kernels.h"

namespace tributary::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

bool has_kernel(const at::Tensor& x, const at::Tensor& weight) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat;
}

struct Normalised {
  at::Tensor result;
  at::Tensor inverse_rms;  // [..., 1]
};

Normalised normalise(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor wide = x.to(wide_type(x));
  const at::Tensor mean_square = at::linalg_vector_norm(wide, 2, at::IntArrayRef{-1}, true)
                                     .square_()
                                     .div_(static_cast<double>(x.size(-1)));
  const at::Tensor inverse_rms = mean_square.add_(epsilon).rsqrt_();
  return {.result = at::mul(at::mul(wide, inverse_rms).to(x.scalar_type()), weight),
          .inverse_rms = inverse_rms};
}

constexpr std::int64_t kRowsOfThread = 128;  // fewer are not worth a thread
/// Rows whose weight gradients are summed in one go, so that sums depend on no thread count.
constexpr std::int64_t kRowsOfSum = 512;

Normalised normalise_by_kernel(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const std::int64_t width = x.size(-1);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  Normalised done{.result = at::empty(x.sizes(), x.options()),
                  .inverse_rms = at::empty(sizes, x.options())};
  const float* in = x.const_data_ptr<float>();
  const float* weights = weight.const_data_ptr<float>();
  float* out = done.result.mutable_data_ptr<float>();
  float* inverse_rms = done.inverse_rms.mutable_data_ptr<float>();
  at::parallel_for(0, done.inverse_rms.numel(), kRowsOfThread,
                   [&](std::int64_t first, std::int64_t last) {
                     cpu::rms_norm({first, last}, width, in, weights, epsilon, out, inverse_rms);
                   });
  return done;
}

struct Gradients {
  at::Tensor x;
  at::Tensor weight;
};

Gradients differentiate(const at::Tensor& given, const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& inverse_rms) {
  const at::Tensor gradient = given.to(wide_type(x));
  const at::Tensor normal = x.to(wide_type(x)) * inverse_rms;
  const at::Tensor scaled = gradient * weight;
  const at::Tensor along = at::mul(scaled, normal).mean(at::IntArrayRef{-1}, true);
  const at::Tensor by_row = at::mul(gradient, normal).reshape({-1, x.size(-1)});
  return {.x = at::sub(scaled, normal * along).mul_(inverse_rms).to(x.scalar_type()),
          .weight = by_row.sum(at::IntArrayRef{0}).to(weight.scalar_type())};
}

Gradients differentiate_by_kernel(const at::Tensor& given, const at::Tensor& x,
                                  const at::Tensor& weight, const at::Tensor& inverse_rms) {
  const std::int64_t width = x.size(-1);
  const std::int64_t rows = inverse_rms.numel();
  const std::int64_t sums = (rows + kRowsOfSum - 1) / kRowsOfSum;
  const at::Tensor gradient = given.contiguous();
  Gradients done{.x = at::empty(x.sizes(), x.options()), .weight = {}};
  at::Tensor parts = at::zeros({sums, width}, x.options());
  const float* gradients = gradient.const_data_ptr<float>();
  const float* in = x.const_data_ptr<float>();
  const float* weights = weight.const_data_ptr<float>();
  const float* scales = inverse_rms.const_data_ptr<float>();
  float* out = done.x.mutable_data_ptr<float>();
  float* part = parts.mutable_data_ptr<float>();
  at::parallel_for(0, sums, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t sum = first; sum < last; ++sum)
      cpu::rms_norm_backward({sum * kRowsOfSum, std::min(rows, (sum + 1) * kRowsOfSum)}, width,
                             gradients, in, weights, scales, out, part + sum * width);
  });
  done.weight = parts.sum(at::IntArrayRef{0});
  return done;
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          double epsilon) {
    const bool by_kernel = has_kernel(x, weight);
    const at::Tensor rows = by_kernel ? x.contiguous() : x;
    const Normalised done =
        by_kernel ? normalise_by_kernel(rows, weight, epsilon) : normalise(rows, weight, epsilon);
    context->save_for_backward({rows, weight, done.inverse_rms});
    return done.result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const bool by_kernel = has_kernel(saved[0], saved[1]);
    const Gradients done = by_kernel
                               ? differentiate_by_kernel(gradients[0], saved[0], saved[1], saved[2])
                               : differentiate(gradients[0], saved[0], saved[1], saved[2]);
    return {done.x, done.weight, Variable()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  // One kernel there; a chain of operations would be bound by memory.
  if (x.is_cuda()) return at::rms_norm(x, weight.sizes(), weight, epsilon);
  return RmsNorm::apply(x, weight, epsilon);
}

}  // namespace tributary::ops
