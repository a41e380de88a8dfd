#include "parallel/linear.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "parallel/split.h"
#include "parallel/token_exchange.h"
#include "parallel/weight_queue.h"

namespace tributary::parallel {
namespace {

constexpr Initializer kZeros{.kind = Initializer::Kind::kZeros, .deviation = 0};

Initializer normal(double deviation) {
  return {.kind = Initializer::Kind::kNormal, .deviation = deviation};
}

std::vector<std::string> with_suffix(const std::vector<std::string>& names, const char* suffix) {
  std::vector<std::string> result;
  for (const std::string& name : names) result.push_back(name + suffix);
  return result;
}

Split split_columns(const Layout& layout, const Heads& heads) {
  return split_heads(layout, heads.count, heads.width, heads.stacks);
}

Split split_weight(const Layout& layout, const LinearShape& shape) {
  switch (shape.cut) {
    case Cut::kWhole:
      break;
    case Cut::kColumns:
      return split_columns(layout, shape.heads.count > 0 ? shape.heads : Heads{shape.out, 1, 1});
    case Cut::kRows:
      return split_evenly(layout, /*dim=*/1, shape.in);
  }
  return replicated(layout, layout.sequence_parallel);
}

}  // namespace

Linear::Linear(Unit& unit, const std::string& name, LinearShape shape)
    : layout_(&unit.layout()),
      cut_(layout_->tp().is_single() ? Cut::kWhole : shape.cut),
      weight_(&unit.declare(name + ".weight", {shape.out, shape.in}, normal(shape.deviation),
                            split_weight(*layout_, shape))),
      adapter_(Adapter::beside(unit, name, *weight_)) {
  weight_->is_map = true;
  if (shape.bias == Bias::kNone) return;
  const bool is_column = cut_ == Cut::kColumns;
  bias_ = &unit.declare(
      name + ".bias", {shape.out}, kZeros,
      is_column ? split_weight(*layout_, shape) : replicated(*layout_, layout_->sequence_parallel));
}

at::Tensor Linear::map(const at::Tensor& x, const at::Tensor& bias) const {
  return adapter_ ? (*adapter_)(x, bias) : linear(x, weight_->value, bias, *layout_);
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  const at::Tensor bias = bias_ != nullptr ? bias_->value : at::Tensor();
  switch (cut_) {
    case Cut::kWhole:
      break;
    case Cut::kColumns:
      return map(all_tokens(x, *layout_), bias);
    case Cut::kRows: {
      const at::Tensor sum = sum_parts(map(x, {}), *layout_);
      return bias.defined() ? sum + bias : sum;  // once, after the sum
    }
  }
  return map(x, bias);
}

JoinedLinear::JoinedLinear(Unit& unit, const std::vector<std::string>& names,
                           const std::vector<Heads>& outs, LinearShape shape)
    : layout_(&unit.layout()) {
  std::vector<std::int64_t> rows;
  std::vector<Split> splits;
  for (const Heads& heads : outs) {
    rows.push_back(heads.rows());
    splits.push_back(split_columns(*layout_, heads));
  }
  weight_ = &unit.declare_joined(with_suffix(names, ".weight"), rows, {shape.in},
                                 normal(shape.deviation), splits);
  for (Parameter* part : weight_->parts) part->is_map = true;
  for (std::size_t i = 0; i < names.size(); ++i)
    adapters_.push_back(Adapter::beside(unit, names[i], *weight_->parts[i]));
  if (std::ranges::none_of(adapters_, [](const auto& each) { return each.has_value(); }))
    adapters_.clear();
  if (shape.bias == Bias::kNone) return;
  if (std::ranges::all_of(outs, &Heads::has_bias)) {
    bias_ = &unit.declare_joined(with_suffix(names, ".bias"), rows, {}, kZeros, splits);
  } else {
    for (std::size_t i = 0; i < outs.size(); ++i)
      single_biases_.push_back(outs[i].has_bias
                                   ? &unit.declare(names[i] + ".bias", {rows[i]}, kZeros, splits[i])
                                   : nullptr);
  }
}

at::Tensor JoinedLinear::bias_of(std::size_t index) const {
  if (bias_ != nullptr) return bias_->parts[index]->value;
  const bool has_one = !single_biases_.empty() && single_biases_[index] != nullptr;
  return has_one ? single_biases_[index]->value : at::Tensor();
}

at::Tensor JoinedLinear::whole_bias() const {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < single_biases_.size(); ++i) {
    const at::Tensor& weight = weight_->parts[i]->value;
    parts.push_back(single_biases_[i] != nullptr ? single_biases_[i]->value
                                                 : at::zeros({weight.size(0)}, weight.options()));
  }
  return at::cat(parts);
}

at::Tensor JoinedLinear::operator()(const at::Tensor& x) const {
  if (!adapters_.empty()) {
    const at::Tensor gathered = gather(x);
    std::vector<at::Tensor> results;
    for (std::size_t i = 0; i < adapters_.size(); ++i) results.push_back(part(i, gathered));
    return at::cat(results, 1);
  }
  const at::Tensor bias = bias_ != nullptr ? bias_->value : at::Tensor();
  const at::Tensor product = linear(gather(x), weight_->value, bias, *layout_);
  return single_biases_.empty() ? product : product + whole_bias();
}

at::Tensor JoinedLinear::gather(const at::Tensor& x) const { return all_tokens(x, *layout_); }

at::Tensor JoinedLinear::part(std::size_t index, const at::Tensor& gathered) const {
  const at::Tensor bias = bias_of(index);
  if (!adapters_.empty() && adapters_[index]) return (*adapters_[index])(gathered, bias);
  return linear(gathered, weight_->parts[index]->value, bias, *layout_);
}

}  // namespace tributary::parallel
