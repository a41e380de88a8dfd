#include "parallel/language_head.h"

#include "ops/linear.h"

namespace tributary::parallel {

LanguageHead::LanguageHead(Unit& unit, const std::string& name, std::int64_t vocab,
                           std::int64_t width, double deviation)
    : weight_(&unit.declare(name + ".weight", {vocab, width},
                            {.kind = Initializer::Kind::kNormal, .deviation = deviation})) {}

at::Tensor LanguageHead::operator()(const at::Tensor& hidden) const {
  return ops::linear(hidden, weight_->value, {});
}

}  // namespace tributary::parallel
