#include "train/optimizer/adamw.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>

#include "train/checkpoint/unit_parts.h"
#include "train/optimizer/parameter_groups.h"

namespace tributary::train {

AdamW::AdamW(const MasterShards& masters, const config::OptimizerSection& settings,
             const Takes& takes)
    : beta1_(settings.beta1),
      beta2_(settings.beta2),
      epsilon_(settings.epsilon),
      takes_(takes),
      step_count_(masters.step_count()) {
  const at::NoGradGuard no_grad;
  for (const MasterShard& shard : masters.shards()) add_shard(shard, settings);
}

void AdamW::add_shard(const MasterShard& shard, const config::OptimizerSection& settings) {
  ParameterRule rule;
  parallel::Range run;  // neighbours under one rule
  const auto close_run = [&] {
    if (run.count > 0) add_run(shard, run, group_of(rule.learning_rate_scale, rule.weight_decay));
    run = {};
  };
  for (const auto& parameter : shard.unit->parameters()) {
    const ParameterRule wanted = find_rule(settings, shard.unit->module(), *parameter);
    const parallel::Range range = shard.unit->range_of(*parameter);
    if (range.count == 0) continue;
    if (!takes_(*parameter)) {
      close_run();
    } else if (run.count > 0 && wanted == rule) {
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
                     .units = {},
                     .values = {},
                     .gradients = {},
                     .exp_avgs = {},
                     .exp_avg_sqs = {},
                     .steps = {}});
  return groups_.back();
}

void AdamW::add_run(const MasterShard& shard, parallel::Range range, Group& group) {
  const at::Tensor value = shard.value.narrow(0, range.first, range.count);
  runs_.push_back({.unit = shard.unit,
                   .range = range,
                   .exp_avg = at::zeros_like(value),
                   .exp_avg_sq = at::zeros_like(value)});
  group.units.push_back(shard.unit);
  group.values.push_back(value);
  group.gradients.push_back(shard.gradient.narrow(0, range.first, range.count));
  group.exp_avgs.push_back(runs_.back().exp_avg);
  group.exp_avg_sqs.push_back(runs_.back().exp_avg_sq);
  group.steps.push_back(step_count_);
}

void AdamW::update(double learning_rate, double gradient_factor, const parallel::Unit* only) {
  // The kernel divides by grad_scale as it reads the gradient: clipping needs no pass of its own.
  std::optional<at::Tensor> divisor;
  if (gradient_factor != 1.0) divisor = at::full({}, 1.0 / gradient_factor, step_count_.options());
  for (const Group& group : groups_) {
    const auto first = only == nullptr ? group.units.begin() : std::ranges::find(group.units, only);
    const auto place = static_cast<std::size_t>(first - group.units.begin());
    const auto count = static_cast<std::size_t>(
        only == nullptr ? std::ssize(group.units) : std::ranges::count(group.units, only));
    const auto runs = [&](const std::vector<at::Tensor>& all) {
      return at::TensorList(all).slice(place, count);
    };
    if (count == 0) continue;
    at::_fused_adamw_(runs(group.values), runs(group.gradients), runs(group.exp_avgs),
                      runs(group.exp_avg_sqs), /*max_exp_avg_sqs=*/{}, runs(group.steps),
                      learning_rate * group.learning_rate_scale, beta1_, beta2_, group.weight_decay,
                      epsilon_, /*amsgrad=*/false, /*maximize=*/false, divisor);
  }
}

void AdamW::append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                         std::vector<NamedTensor>& state) const {
  if (!takes_(parameter)) return;
  const parallel::Range own = unit.range_of(parameter);
  const auto run = std::ranges::find_if(runs_, [&](const Run& each) {
    return each.unit == &unit && own.count > 0 && own.first >= each.range.first &&
           own.first < each.range.first + each.range.count;
  });
  const bool is_here = run != runs_.end();
  const at::Tensor nothing = at::empty({0}, at::kFloat);
  const std::int64_t begin = is_here ? run->range.first : 0;
  append_parts(unit, parameter, is_here ? run->exp_avg : nothing, "exp_avg.", state, begin);
  append_parts(unit, parameter, is_here ? run->exp_avg_sq : nothing, "exp_avg_sq.", state, begin);
}

}  // namespace tributary::train
