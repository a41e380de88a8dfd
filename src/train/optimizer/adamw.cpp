#include "train/optimizer/adamw.h"

#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"
#include "train/optimizer/parameter_groups.h"

namespace tributary::train {
namespace {

/// Where a parameter lies in its unit's flat buffers.
struct Range {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

Range find_range(const parallel::Unit& unit, const parallel::Parameter& parameter) {
  const Range range{parameter.offset, parameter.offset + parameter.elements()};
  TRIB_CHECK(range.first >= 0 && range.end <= unit.flat_value().numel(),
             .what = "train: parameter outside its unit's buffer", .where = parameter.name,
             .found = str("elements ", range.first, " to ", range.end),
             .expected = str("0 to ", unit.flat_value().numel()));
  return range;
}

at::Tensor view_of(const at::Tensor& flat, const parallel::Unit& unit,
                   const parallel::Parameter& parameter) {
  const Range range = find_range(unit, parameter);
  return flat.narrow(0, range.first, range.end - range.first).view(parameter.shape);
}

}  // namespace

AdamW::AdamW(std::span<const std::unique_ptr<parallel::Unit>> units,
             const config::OptimizerSection& settings)
    : beta1_(settings.beta1), beta2_(settings.beta2), epsilon_(settings.epsilon) {
  check_groups(settings, units);
  for (const auto& unit : units)
    if (unit->trainable()) add_unit(*unit, settings);
}

void AdamW::add_unit(const parallel::Unit& unit, const config::OptimizerSection& settings) {
  const at::NoGradGuard no_grad;
  const at::Tensor& value = unit.flat_value();
  const auto f32 = value.options().dtype(at::kFloat).requires_grad(false);
  const bool is_f32 = value.scalar_type() == at::kFloat;
  if (!step_count_.defined()) step_count_ = at::zeros({}, f32);
  units_.push_back({.unit = &unit,
                    .master = is_f32 ? value : value.to(at::kFloat),
                    .gradient = is_f32 ? unit.flat_gradient() : at::empty(value.sizes(), f32),
                    .exp_avg = at::zeros(value.sizes(), f32),
                    .exp_avg_sq = at::zeros(value.sizes(), f32)});
  const UnitState& state = units_.back();

  std::pair<ParameterRule, Range> run;
  const auto close_run = [&] {
    if (run.second.end > run.second.first)
      add_run(state, run.second.first, run.second.end,
              group_of(run.first.learning_rate_scale, run.first.weight_decay));
  };
  for (const auto& parameter : unit.parameters()) {
    const ParameterRule rule = find_rule(settings, unit.module(), *parameter);
    const Range range = find_range(unit, *parameter);
    const bool continues = rule == run.first && range.first >= run.second.end;
    if (run.second.end == 0 || !continues) {
      close_run();
      run = {rule, range};
    } else {
      run.second.end = range.end;  // the padding between two parameters has zero gradient
    }
  }
  close_run();
}

AdamW::Group& AdamW::group_of(double learning_rate_scale, double weight_decay) {
  for (Group& group : groups_)
    if (group.learning_rate_scale == learning_rate_scale && group.weight_decay == weight_decay)
      return group;
  groups_.push_back({.learning_rate_scale = learning_rate_scale,
                     .weight_decay = weight_decay,
                     .values = {},
                     .gradients = {},
                     .exp_avgs = {},
                     .exp_avg_sqs = {},
                     .steps = {}});
  return groups_.back();
}

void AdamW::add_run(const UnitState& state, std::int64_t first, std::int64_t end, Group& group) {
  group.values.push_back(state.master.narrow(0, first, end - first));
  group.gradients.push_back(state.gradient.narrow(0, first, end - first));
  group.exp_avgs.push_back(state.exp_avg.narrow(0, first, end - first));
  group.exp_avg_sqs.push_back(state.exp_avg_sq.narrow(0, first, end - first));
  group.steps.push_back(step_count_);
}

void AdamW::step(double learning_rate, double gradient_factor) {
  if (units_.empty()) return;
  const at::NoGradGuard no_grad;
  ++steps_;
  step_count_.fill_(static_cast<double>(steps_));
  for (UnitState& state : units_)
    if (!state.gradient.is_same(state.unit->flat_gradient()))
      state.gradient.copy_(state.unit->flat_gradient());
  // The kernel divides by grad_scale while it reads the gradient: clipping costs no pass of its
  // own.
  std::optional<at::Tensor> divisor;
  if (gradient_factor != 1.0) divisor = at::full({}, 1.0 / gradient_factor, step_count_.options());
  for (Group& group : groups_)
    at::_fused_adamw_(group.values, group.gradients, group.exp_avgs, group.exp_avg_sqs,
                      /*max_exp_avg_sqs=*/{}, group.steps,
                      learning_rate * group.learning_rate_scale, beta1_, beta2_, group.weight_decay,
                      epsilon_, /*amsgrad=*/false, /*maximize=*/false, divisor);
  for (UnitState& state : units_)
    if (!state.master.is_same(state.unit->flat_value()))
      state.unit->flat_value().copy_(state.master);
}

std::vector<NamedTensor> AdamW::state() const {
  std::vector<NamedTensor> state;
  for (const UnitState& unit_state : units_) {
    const parallel::Unit& unit = *unit_state.unit;
    for (const auto& parameter : unit.parameters()) {
      state.push_back(
          {"exp_avg." + parameter->name, view_of(unit_state.exp_avg, unit, *parameter)});
      state.push_back(
          {"exp_avg_sq." + parameter->name, view_of(unit_state.exp_avg_sq, unit, *parameter)});
      if (!unit_state.master.is_same(unit.flat_value()))
        state.push_back(
            {"master." + parameter->name, view_of(unit_state.master, unit, *parameter)});
      state.push_back({"step." + parameter->name, step_count_});
    }
  }
  return state;
}

void AdamW::restore(std::int64_t steps) {
  if (units_.empty()) return;
  const at::NoGradGuard no_grad;
  steps_ = steps;
  step_count_.fill_(static_cast<double>(steps));
  for (UnitState& state : units_)
    if (!state.master.is_same(state.unit->flat_value()))
      state.unit->flat_value().copy_(state.master);
}

}  // namespace tributary::train
