#include "parallel/linear.h"

#include "ops/linear.h"

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

}  // namespace

Linear::Linear(Unit& unit, const std::string& name, LinearShape shape)
    : weight_(&unit.declare(name + ".weight", {shape.out, shape.in}, normal(shape.deviation))) {
  if (shape.bias == Bias::kZeros) bias_ = &unit.declare(name + ".bias", {shape.out}, kZeros);
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return ops::linear(x, weight_->value, bias_ != nullptr ? bias_->value : at::Tensor());
}

JoinedLinear::JoinedLinear(Unit& unit, const std::vector<std::string>& names,
                           const std::vector<std::int64_t>& outs, LinearShape shape)
    : weight_(&unit.declare_joined(with_suffix(names, ".weight"), outs, {shape.in},
                                   normal(shape.deviation))) {
  if (shape.bias == Bias::kZeros)
    bias_ = &unit.declare_joined(with_suffix(names, ".bias"), outs, {}, kZeros);
}

at::Tensor JoinedLinear::operator()(const at::Tensor& x) const {
  return ops::linear(x, weight_->value, bias_ != nullptr ? bias_->value : at::Tensor());
}

}  // namespace tributary::parallel
