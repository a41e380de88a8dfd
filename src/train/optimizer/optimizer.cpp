#include "train/optimizer/optimizer.h"

#include <set>

#include <ATen/ATen.h>

#include "core/error.h"
#include "train/checkpoint/unit_parts.h"
#include "train/optimizer/adamw.h"
#include "train/optimizer/adamw_8bit.h"
#include "train/optimizer/muon.h"
#include "train/optimizer/parameter_groups.h"

namespace tributary::train {
namespace {

using Rules = std::vector<std::unique_ptr<UpdateRule>>;

/// The rules of a kind: the first one takes what it is for, AdamW the rest.
Rules make_rules(const MasterShards& masters, const config::OptimizerSection& settings) {
  using config::OptimizerKind;
  UpdateRule::Takes takes;
  Rules rules;
  switch (settings.kind) {
    case OptimizerKind::kAdamW:
      takes = [](const parallel::Parameter&) { return false; };
      break;
    case OptimizerKind::kMuon:
      takes = [](const parallel::Parameter& parameter) { return parameter.is_map; };
      rules.push_back(std::make_unique<Muon>(masters, settings, takes));
      break;
    case OptimizerKind::kAdamW8bit:
      takes = is_quantised;
      rules.push_back(std::make_unique<AdamW8bit>(masters, settings, takes));
      break;
  }
  rules.push_back(std::make_unique<AdamW>(
      masters, settings, [takes](const parallel::Parameter& each) { return !takes(each); }));
  return rules;
}

std::string name_kind(const config::OptimizerSection& settings) {
  std::string name;
  switch (settings.kind) {
    case config::OptimizerKind::kAdamW:
      name = "adamw";
      break;
    case config::OptimizerKind::kMuon:
      name = "muon";
      break;
    case config::OptimizerKind::kAdamW8bit:
      name = "adamw_8bit";
      break;
  }
  return settings.ema_decay > 0 ? name + ", averaged" : name;
}

}  // namespace

Optimizer::Optimizer(std::span<const std::unique_ptr<parallel::Unit>> units,
                     const config::OptimizerSection& settings, bool keeps_start)
    : units_(units),
      masters_(units),
      average_gain_(1 - settings.ema_decay),
      kind_(name_kind(settings)) {
  check_groups(settings, units);
  rules_ = make_rules(masters_, settings);
  if (settings.ema_decay > 0) average_.emplace(masters_, "ema", WeightCopy::Values::kWide);
  if (keeps_start) reference_.emplace(masters_, "reference", WeightCopy::Values::kAsParameters);
}

void Optimizer::begin_step() {
  masters_.set_steps(++steps_);
  masters_.take_gradients();
}

void Optimizer::end_step() {
  if (average_) average_->move_to_parameters(average_gain_);
  masters_.publish();
}

void Optimizer::update(double learning_rate, double gradient_factor, const parallel::Unit* only) {
  for (const auto& rule : rules_) rule->update(learning_rate, gradient_factor, only);
}

void Optimizer::step(double learning_rate, double gradient_factor) {
  if (masters_.shards().empty()) return;
  const at::NoGradGuard no_grad;
  begin_step();
  update(learning_rate, gradient_factor, /*only=*/nullptr);
  end_step();
}

UpdateSquares Optimizer::measured_step(double learning_rate, double gradient_factor) {
  SquareSums change(units_);
  SquareSums parameters(units_);
  if (!masters_.shards().empty()) {
    const at::NoGradGuard no_grad;
    begin_step();
    for (const MasterShard& shard : masters_.shards()) {
      at::Tensor before = shard.value.clone();
      parameters.add(*shard.unit, before);
      update(learning_rate, gradient_factor, shard.unit);
      change.add(*shard.unit, before.sub_(shard.value));
    }
    end_step();
  }
  return {.change = change.sums(), .parameters = parameters.sums()};
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> state;
  std::set<std::string> names;
  for (const MasterShard& shard : masters_.shards()) {
    const parallel::Unit& unit = *shard.unit;
    const bool has_master = shard.value.scalar_type() != unit.shard_value().scalar_type();
    for (const auto& parameter : unit.parameters()) {
      for (const auto& rule : rules_) rule->append_state(unit, *parameter, state);
      if (has_master) append_parts(unit, *parameter, shard.value, "master.", state);
      if (average_) average_->append_state(unit, *parameter, state);
      if (reference_) reference_->append_state(unit, *parameter, state);
      // A head that is tied over pipeline stages has a unit beside the embedding's.
      const bool writes =
          unit.layout().mesh->world().index() == 0 && names.insert(parameter->name).second;
      state.push_back(
          {"step." + parameter->name, masters_.step_count(), TensorPart{{}, {}, writes}});
    }
  }
  return state;
}

void Optimizer::restore(std::int64_t steps) {
  if (masters_.shards().empty()) return;
  const at::NoGradGuard no_grad;
  steps_ = steps;
  masters_.set_steps(steps);
  for (const auto& rule : rules_) rule->restore();
  masters_.publish();
}

std::unique_ptr<Optimizer> make_optimizer(const config::OptimizerSection& settings,
                                          std::span<const std::unique_ptr<parallel::Unit>> units,
                                          bool keeps_start) {
  return std::make_unique<Optimizer>(units, settings, keeps_start);
}

}  // namespace tributary::train
