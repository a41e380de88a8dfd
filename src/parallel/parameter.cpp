#include "parallel/parameter.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::parallel {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;

std::int64_t count_elements(at::IntArrayRef shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

std::int64_t Parameter::elements() const { return count_elements(shape); }

Parameter& Unit::declare(std::string name, std::vector<std::int64_t> shape,
                         Initializer initializer) {
  TRIB_CHECK(!flat_value_.defined(), .what = "parallel: parameter declared after materialize",
             .where = name_, .found = name);
  starts_.push_back(parameters_.size());
  parameters_.push_back(std::make_unique<Parameter>(Parameter{.name = std::move(name),
                                                              .shape = std::move(shape),
                                                              .initializer = initializer,
                                                              .value = {},
                                                              .offset = 0}));
  return *parameters_.back();
}

JoinedParameters& Unit::declare_joined(const std::vector<std::string>& names,
                                       const std::vector<std::int64_t>& rows,
                                       const std::vector<std::int64_t>& tail,
                                       Initializer initializer) {
  TRIB_CHECK(!names.empty() && names.size() == rows.size(),
             .what = "parallel: joined parameters need one row count a name",
             .found = str(names.size(), " names, ", rows.size(), " row counts"));
  JoinedParameters& joined = *joined_.emplace_back(std::make_unique<JoinedParameters>());
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::int64_t> shape{rows[i]};
    shape.insert(shape.end(), tail.begin(), tail.end());
    joined.parts.push_back(&declare(names[i], std::move(shape), initializer));
    if (i > 0) starts_.pop_back();
  }
  return joined;
}

at::Tensor Unit::make_leaf(std::int64_t offset, at::IntArrayRef shape) const {
  const std::int64_t elements = count_elements(shape);
  at::Tensor leaf = flat_value_.narrow(0, offset, elements).view(shape).detach();
  leaf.requires_grad_(trainable_);
  // A gradient that is there before backward is added to in place, whatever the microbatch.
  if (trainable_) leaf.mutable_grad() = flat_gradient_.narrow(0, offset, elements).view(shape);
  return leaf;
}

void Unit::materialize(at::Device device, at::ScalarType dtype, bool trainable) {
  const std::int64_t step = std::max<std::int64_t>(
      1, kAlignmentBytes / static_cast<std::int64_t>(at::elementSize(dtype)));
  std::int64_t elements = 0;
  auto start = starts_.begin();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (start != starts_.end() && *start == i) {
      elements = round_up(elements, step);
      ++start;
    }
    parameters_[i]->offset = elements;
    elements += parameters_[i]->elements();
  }
  elements = round_up(elements, step);

  trainable_ = trainable;
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  flat_value_ = at::zeros({elements}, options);
  flat_gradient_ = trainable ? at::zeros({elements}, options) : at::Tensor();
  for (const auto& parameter : parameters_)
    parameter->value = make_leaf(parameter->offset, parameter->shape);
  for (const auto& joined : joined_) {
    std::vector<std::int64_t> shape = joined->parts.front()->shape;
    shape[0] = 0;
    for (const Parameter* part : joined->parts) shape[0] += part->shape[0];
    joined->value = make_leaf(joined->parts.front()->offset, shape);
  }
}

at::Tensor Unit::gradient_of(const Parameter& parameter) const {
  if (!trainable_) return {};
  return flat_gradient_.narrow(0, parameter.offset, parameter.elements()).view(parameter.shape);
}

}  // namespace tributary::parallel
