#include "train/optimizer/adamw.h"

#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"
#include "parallel/unit_chain.h"
#include "train/checkpoint/unit_parts.h"
#include "train/optimizer/parameter_groups.h"

namespace tributary::train {

AdamW::AdamW(std::span<const std::unique_ptr<parallel::Unit>> units,
             const config::OptimizerSection& settings)
    : beta1_(settings.beta1), beta2_(settings.beta2), epsilon_(settings.epsilon) {
  check_groups(settings, units);
  for (const auto& unit : units)
    if (unit->trainable()) add_unit(*unit, settings);
}

void AdamW::add_unit(parallel::Unit& unit, const config::OptimizerSection& settings) {
  const at::NoGradGuard no_grad;
  const at::Tensor& value = unit.shard_value();
  const bool on_host = unit.layout().chain && unit.layout().chain->options().keep_optimizer_on_host;
  const auto f32 = at::TensorOptions()
                       .dtype(at::kFloat)
                       .device(on_host ? at::Device(at::kCPU) : unit.shard_gradient().device());
  const auto fits = [&](const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat && tensor.device() == f32.device();
  };
  if (!step_count_.defined()) step_count_ = at::zeros({}, f32);
  const at::Tensor& gradient = unit.shard_gradient();
  units_.push_back({.unit = &unit,
                    .master = fits(value) ? value : value.to(f32),
                    .gradient = fits(gradient) ? gradient : at::empty(value.sizes(), f32),
                    .exp_avg = at::zeros(value.sizes(), f32),
                    .exp_avg_sq = at::zeros(value.sizes(), f32)});
  const UnitState& state = units_.back();

  ParameterRule rule;
  parallel::Range run;  // neighbours under one rule
  const auto close_run = [&] {
    if (run.count > 0) add_run(state, run, group_of(rule.learning_rate_scale, rule.weight_decay));
  };
  for (const auto& parameter : unit.parameters()) {
    const ParameterRule wanted = find_rule(settings, unit.module(), *parameter);
    const parallel::Range range = unit.range_of(*parameter);
    if (range.count == 0) continue;
    if (run.count > 0 && wanted == rule) {
      run.count = range.first + range.count - run.first;  // what lies between has zero gradient
    } else {
      close_run();
      rule = wanted;
      run = range;
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

void AdamW::add_run(const UnitState& state, parallel::Range run, Group& group) {
  group.values.push_back(state.master.narrow(0, run.first, run.count));
  group.gradients.push_back(state.gradient.narrow(0, run.first, run.count));
  group.exp_avgs.push_back(state.exp_avg.narrow(0, run.first, run.count));
  group.exp_avg_sqs.push_back(state.exp_avg_sq.narrow(0, run.first, run.count));
  group.steps.push_back(step_count_);
}

void AdamW::step(double learning_rate, double gradient_factor) {
  if (units_.empty()) return;
  const at::NoGradGuard no_grad;
  ++steps_;
  step_count_.fill_(static_cast<double>(steps_));
  for (UnitState& state : units_)
    if (!state.gradient.is_same(state.unit->shard_gradient()))
      state.gradient.copy_(state.unit->shard_gradient());
  // The kernel divides by grad_scale as it reads the gradient: clipping needs no pass of its own.
  std::optional<at::Tensor> divisor;
  if (gradient_factor != 1.0) divisor = at::full({}, 1.0 / gradient_factor, step_count_.options());
  for (Group& group : groups_)
    at::_fused_adamw_(group.values, group.gradients, group.exp_avgs, group.exp_avg_sqs,
                      /*max_exp_avg_sqs=*/{}, group.steps,
                      learning_rate * group.learning_rate_scale, beta1_, beta2_, group.weight_decay,
                      epsilon_, /*amsgrad=*/false, /*maximize=*/false, divisor);
  publish_values();
}

void AdamW::publish_values() {
  for (UnitState& state : units_) {
    if (!state.master.is_same(state.unit->shard_value()))
      state.unit->shard_value().copy_(state.master);
    state.unit->discard();
  }
}

std::vector<NamedTensor> AdamW::state() const {
  std::vector<NamedTensor> state;
  std::set<std::string> names;
  for (const UnitState& unit_state : units_) {
    const parallel::Unit& unit = *unit_state.unit;
    const bool has_master = unit_state.master.scalar_type() != unit.shard_value().scalar_type();
    for (const auto& parameter : unit.parameters()) {
      append_parts(unit, *parameter, unit_state.exp_avg, "exp_avg.", state);
      append_parts(unit, *parameter, unit_state.exp_avg_sq, "exp_avg_sq.", state);
      if (has_master) append_parts(unit, *parameter, unit_state.master, "master.", state);
      // A head that is tied over pipeline stages has a unit beside the embedding's.
      const bool writes =
          unit.layout().mesh->world().index() == 0 && names.insert(parameter->name).second;
      state.push_back({"step." + parameter->name, step_count_, TensorPart{{}, {}, writes}});
    }
  }
  return state;
}

void AdamW::restore(std::int64_t steps) {
  if (units_.empty()) return;
  const at::NoGradGuard no_grad;
  steps_ = steps;
  step_count_.fill_(static_cast<double>(steps));
  publish_values();
}

}  // namespace tributary::train
