#include "parallel/adapter.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "parallel/split.h"
#include "parallel/unit.h"
#include "parallel/weight_queue.h"

namespace tributary::parallel {
namespace {

constexpr std::string_view kMagnitude = ".lora_magnitude_vector";

/// The lengths of the rows of a weight, of which a row cut holds a part on each tp rank.
/// shape: change undefined or as weight [out, in] -> returns [out] f32
at::Tensor row_lengths(const Parameter& weight, const at::Tensor& change, const Layout& layout) {
  const at::NoGradGuard no_grad;
  at::Tensor changed = weight.value.detach().to(at::kFloat);
  if (change.defined()) changed = changed + change;
  if (weight.split.dim != 1) return at::linalg_vector_norm(changed, 2, {1});
  const at::Tensor squares = changed.square().sum(1);
  layout.tp().all_reduce(squares).wait();
  return squares.sqrt();
}

}  // namespace

std::optional<Adapter> Adapter::beside(Unit& unit, const std::string& name,
                                       const Parameter& weight) {
  const AdapterRules* rules = unit.layout().adapters.get();
  if (rules == nullptr || !rules->is_wanted(unit.module(), name)) return std::nullopt;
  return Adapter(unit, name, weight);
}

Adapter::Adapter(Unit& unit, const std::string& name, const Parameter& weight)
    : layout_(&unit.layout()), weight_(&weight), scale_(layout_->adapters->scale) {
  const std::int64_t rank = layout_->adapters->rank;
  const std::int64_t out = weight.shape[0];
  const std::int64_t in = weight.shape[1];
  // Every tp rank adds its outputs' or inputs' part to the gradient of what it holds whole.
  const Split whole = replicated(*layout_, /*uses_part=*/true);
  const bool by_columns = weight.split.dim == 0;
  const bool by_rows = weight.split.dim == 1;
  const Split& of_down = by_columns ? whole : weight.split;
  const Split& of_up = by_rows ? whole : weight.split;
  Unit& own = unit.adapter();
  const Initializer uniform{.kind = Initializer::Kind::kUniform,
                            .deviation = 1 / std::sqrt(static_cast<double>(in))};
  down_ = &own.declare(name + ".lora_A.weight", {rank, in}, uniform, of_down);
  up_ = &own.declare(name + ".lora_B.weight", {out, rank}, {}, of_up);
  if (layout_->adapters->has_magnitude)
    magnitude_ = &own.declare(name + std::string(kMagnitude), {out}, {}, of_up);
}

at::Tensor Adapter::operator()(const at::Tensor& x, const at::Tensor& bias) const {
  const auto change = [&] {
    return scale_ * linear(linear(x, down_->value, {}, *layout_), up_->value, {}, *layout_);
  };
  if (magnitude_ == nullptr) return linear(x, weight_->value, bias, *layout_) + change();
  at::Tensor lengths;
  {
    const at::NoGradGuard no_grad;
    lengths = row_lengths(
        *weight_, scale_ * up_->value.to(at::kFloat).mm(down_->value.to(at::kFloat)), *layout_);
  }
  const at::Tensor factor = (magnitude_->value.to(at::kFloat) / lengths).to(x.scalar_type());
  const at::Tensor result = factor * (linear(x, weight_->value, {}, *layout_) + change());
  return bias.defined() ? result + bias : result;
}

void reset_magnitudes(Unit& unit) {
  if (!unit.has_adapter() || !unit.is_here()) return;
  const at::NoGradGuard no_grad;
  unit.acquire();
  for (const auto& magnitude : unit.adapter().parameters()) {
    if (!magnitude->name.ends_with(kMagnitude)) continue;
    const std::string name =
        magnitude->name.substr(0, magnitude->name.size() - kMagnitude.size()) + ".weight";
    const auto weight =
        std::ranges::find(unit.parameters(), name, [](const auto& each) { return each->name; });
    unit.adapter().set_own_part(*magnitude, row_lengths(**weight, {}, unit.layout()));
  }
  unit.release();
  unit.discard();
  unit.adapter().discard();
}

}  // namespace tributary::parallel
