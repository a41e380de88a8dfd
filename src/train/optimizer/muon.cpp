#include "train/optimizer/muon.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "core/error.h"
#include "train/checkpoint/unit_parts.h"
#include "train/optimizer/parameter_groups.h"

namespace tributary::train {
namespace {

/// A box of a whole matrix. shape: returns a view with the lengths of the box
at::Tensor cut(at::Tensor whole, const Box& box) {
  for (std::size_t i = 0; i < box.lengths.size(); ++i)
    whole = whole.narrow(static_cast<std::int64_t>(i), box.offsets[i], box.lengths[i]);
  return whole;
}

at::Tensor whole_of(const at::Tensor& all, std::int64_t first,
                    const parallel::Parameter& parameter) {
  return all.narrow(0, first, parameter.elements()).view(parameter.shape);
}

}  // namespace

at::Tensor orthogonalise(const at::Tensor& matrix) {
  constexpr double kA = 3.4445;
  constexpr double kB = -4.7750;
  constexpr double kC = 2.0315;
  constexpr int kSteps = 5;
  constexpr double kEpsilon = 1e-7;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(matrix.is_cpu() ? at::kFloat : at::kBFloat16);
  if (is_tall) x = x.t();
  x = x / x.norm().clamp_min(kEpsilon);
  for (int i = 0; i < kSteps; ++i) {
    const at::Tensor gram = x.mm(x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA);
  }
  return (is_tall ? x.t() : x).to(at::kFloat);
}

Muon::Muon(const MasterShards& masters, const config::OptimizerSection& settings,
           const Takes& takes)
    : momentum_(settings.momentum), takes_(takes) {
  for (const MasterShard& shard : masters.shards()) add_shard(shard, settings);
  TRIB_REQUIRE(!units_.empty(), .what = "train: Muon has no matrix to update",
               .where = "optimizer.kind", .found = "no trained weight of a linear map",
               .expected = "a module that trains whole; adapters take adamw");
}

void Muon::add_shard(const MasterShard& shard, const config::OptimizerSection& settings) {
  UnitMatrices unit{.shard = shard, .matrices = {}};
  for (const auto& parameter : shard.unit->parameters()) {
    if (!takes_(*parameter)) continue;
    const ParameterRule rule = find_rule(settings, shard.unit->module(), *parameter);
    const parallel::Range own = shard.unit->range_of(*parameter);
    unit.matrices.push_back({.parameter = parameter.get(),
                             .own = own,
                             .learning_rate_scale = rule.learning_rate_scale,
                             .weight_decay = rule.weight_decay,
                             .momentum = at::zeros({own.count}, shard.value.options()),
                             .first = unit.elements});
    unit.elements += parameter->elements();
  }
  if (!unit.matrices.empty()) units_.push_back(std::move(unit));
}

void Muon::update(double learning_rate, double gradient_factor, const parallel::Unit* only) {
  for (UnitMatrices& unit : units_)
    if (unit.shard.unit->is_here() && (only == nullptr || only == unit.shard.unit))
      update_unit(unit, learning_rate, gradient_factor);
}

at::Tensor Muon::gather_updates(UnitMatrices& unit, double gradient_factor) const {
  const parallel::Unit& of = *unit.shard.unit;
  const at::Tensor all =
      at::zeros({unit.elements}, of.shard_gradient().options().dtype(at::kFloat));
  for (Matrix& matrix : unit.matrices) {
    const at::Tensor gradient =
        unit.shard.gradient.narrow(0, matrix.own.first, matrix.own.count) * gradient_factor;
    matrix.momentum.lerp_(gradient, 1 - momentum_);
    const at::Tensor update = gradient.lerp_(matrix.momentum, momentum_);
    // Of equal copies one is counted.
    const mesh::Group* copies = matrix.parameter->split.copies;
    if (copies != nullptr && copies->index() != 0) continue;
    for (const auto& [box, first] : of.boxes_of(*matrix.parameter)) {
      const at::Tensor whole = whole_of(all, matrix.first, *matrix.parameter);
      cut(whole, box)
          .copy_(
              update.narrow(0, first - matrix.own.first, *volume(box.lengths)).view(box.lengths));
    }
  }
  const mesh::Mesh& mesh = *of.layout().mesh;
  mesh.shard().all_reduce(all).wait();
  mesh.tp().all_reduce(all).wait();
  return all;
}

void Muon::update_unit(UnitMatrices& unit, double learning_rate, double gradient_factor) const {
  const parallel::Unit& of = *unit.shard.unit;
  const at::Tensor all = gather_updates(unit, gradient_factor);
  for (const Matrix& matrix : unit.matrices) {
    if (matrix.own.count == 0) continue;
    const double rate = learning_rate * matrix.learning_rate_scale;
    const auto longest = static_cast<double>(std::ranges::max(matrix.parameter->shape));
    const at::Tensor direction = orthogonalise(whole_of(all, matrix.first, *matrix.parameter));
    const at::Tensor value = unit.shard.value.narrow(0, matrix.own.first, matrix.own.count);
    value.mul_(1 - rate * matrix.weight_decay);
    for (const auto& [box, first] : of.boxes_of(*matrix.parameter))
      value.narrow(0, first - matrix.own.first, *volume(box.lengths))
          .view(box.lengths)
          .sub_(cut(direction, box).to(value.device()), rate * 0.2 * std::sqrt(longest));
  }
}

void Muon::append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                        std::vector<NamedTensor>& state) const {
  for (const UnitMatrices& each : units_)
    for (const Matrix& matrix : each.matrices)
      if (matrix.parameter == &parameter)
        append_parts(unit, parameter, matrix.momentum, "momentum.", state, matrix.own.first);
}

}  // namespace tributary::train
