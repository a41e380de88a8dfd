#include <algorithm>
#include <cmath>

#include "config/run/optimizer_state.h"
#include "cost/stages/stage_parts.h"

namespace tributary::cost {
namespace {

using config::CollectiveOp;
using config::LayerKind;

Bytes rounded(double bytes) { return {std::llround(bytes)}; }

/// One layer as the trainer shards it.
struct Unit {
  LayerValues values;
  LayerValues trained;         // of them
  double optimizer_bytes = 0;  // of a trained value
  [[nodiscard]] bool trains() const { return trained.all() > 0; }
};

/// Bytes beside a trained value: a float32 weight where the weight has a smaller type, a float32
/// gradient where gradients are kept in a smaller type, moments, and an average.
double optimizer_bytes(const config::LayerShape& layer, const StageRules& rules) {
  const double masters = (rules.value_bytes() < 4 ? 4 : 0) + (rules.gradient_bytes() < 4 ? 4 : 0);
  const double averages = rules.training.averages ? config::kAverageBytes : 0;
  const MatrixWeights trained = count_trained_matrices(layer);
  const auto part = [&](std::int64_t weights) {
    return static_cast<double>(weights) /
           static_cast<double>(std::max<std::int64_t>(1, trained.all));
  };
  const config::OptimizerKind kind = rules.training.optimizer;
  const double other = config::moment_bytes(kind, {});
  const double of_maps = config::moment_bytes(kind, {.is_map = true}) - other;
  const double of_large = config::moment_bytes(kind, {.is_large = true}) - other;
  return masters + averages + other + part(trained.maps) * of_maps + part(trained.large) * of_large;
}

/// Parameters of a layer that a rank holds whole beside its shard. With one shard there are none,
/// unless the whole is of another type.
double beside_shard(const LayerValues& values, const PlacedStage& stage, bool is_other_type) {
  const bool dense = is_other_type || stage.groups.shard.ranks > 1;
  const bool experts = is_other_type || stage.groups.expert_shard.ranks > 1;
  return (dense ? values.dense : 0) + (experts ? values.experts : 0);
}

std::vector<Unit> units_of(const PlacedStage& stage, const StageRules& rules) {
  std::vector<Unit> units;
  for (const PlacedRun& run : stage.runs) {
    units.insert(units.end(), static_cast<std::size_t>(run.layers),
                 {.values = values_of(run, stage.mesh, rules),
                  .trained = trained_values_of(run, stage.mesh, rules),
                  .optimizer_bytes = optimizer_bytes(run.shape, rules)});
  }
  return units;
}

/// Max bytes of whole values and gradients that come and go on a sharded stage: while a layer
/// computes, the next one is gathered, its gradient grows, and two layers are being reduced.
class PassingBuffers {
 public:
  PassingBuffers(const std::vector<Unit>& units, const PlacedStage& stage, const StageRules& rules)
      : units_(units), stage_(stage), rules_(rules) {}

  [[nodiscard]] double max() const {
    double max = 0;
    for (std::int64_t i = 0; i < std::ssize(units_); ++i)
      max = std::max(max,
                     values(i) + values(i - 1) + gradient(i) + reduction(i + 1) + reduction(i + 2));
    return max;
  }

 private:
  [[nodiscard]] bool exists(std::int64_t unit) const {
    return unit >= 0 && unit < std::ssize(units_);
  }
  [[nodiscard]] double values(std::int64_t unit) const {
    if (!exists(unit) || rules_.gathers_once()) return 0;
    return rules_.value_bytes() * beside_shard(units_[unit].values, stage_, false);
  }
  [[nodiscard]] double gradient(std::int64_t unit) const {
    if (!exists(unit) || !units_[unit].trains() || rules_.reduces_once()) return 0;
    const bool is_wider = rules_.gradient_bytes() > rules_.value_bytes();
    return rules_.value_bytes() * beside_shard(units_[unit].trained, stage_, is_wider);
  }
  /// The gradient, its widened part, and the shard that arrives.
  [[nodiscard]] double reduction(std::int64_t unit) const {
    const double whole = gradient(unit);
    if (whole == 0) return 0;
    const double wide = rules_.gradient_bytes();
    return whole + (wide > rules_.value_bytes() ? wide * units_[unit].trained.all() : 0) +
           wide * units_[unit].trained.of_rank(stage_.mesh);
  }

  const std::vector<Unit>& units_;
  const PlacedStage& stage_;
  const StageRules& rules_;
};

void add_bytes(StageState& state, const std::vector<Unit>& units, const PlacedStage& stage,
               const StageRules& rules) {
  const double wide = rules.gradient_bytes();
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  for (const Unit& unit : units) {
    parameters += rules.value_bytes() * unit.values.of_rank(stage.mesh);
    if (rules.gathers_once())
      parameters += rules.value_bytes() * beside_shard(unit.values, stage, false);
    if (!unit.trains()) continue;
    const double own = unit.trained.of_rank(stage.mesh);
    gradients += wide * own;
    if (rules.reduces_once())
      gradients += wide * beside_shard(unit.trained, stage, wide > rules.value_bytes());
    optimizer += unit.optimizer_bytes * own;
  }
  state.parameters = rounded(parameters);
  state.gradients = rounded(gradients);
  state.optimizer = rounded(optimizer);
  state.gathered = rounded(PassingBuffers(units, stage, rules).max());
}

/// Each layer reduces separately. When every microbatch reduces, the step only waits for the last
/// reduction, that of the first layer, because no compute follows it.
Nanoseconds reduction_of(const std::vector<Unit>& units, const PlacedStage& stage,
                         const StageRules& rules) {
  Nanoseconds time;
  bool is_first = true;
  for (const Unit& unit : units) {
    if (!unit.trains()) continue;
    if (rules.reduces_once() || is_first) time += reduce_time(unit.trained, stage, rules);
    is_first = false;
    time += collective_time(rules, CollectiveOp::kAllReduce, stage.groups.replicate,
                            rules.gradient_bytes() * unit.trained.of_rank(stage.mesh));
  }
  return time;
}

/// The two copies of a tied table add their gradients.
Nanoseconds pair_time(const PlacedStage& stage, const StageRules& rules) {
  Nanoseconds time;
  for (const PlacedRun& run : stage.runs) {
    if (run.table != TiedTable::kCopied || !run.trains) continue;
    PlacedRun table = run;
    table.shape.kind = LayerKind::kEmbedding;  // without the norm of the head
    time += collective_time(
        rules, CollectiveOp::kAllReduce, stage.groups.ends,
        rules.gradient_bytes() * values_of(table, stage.mesh, rules).of_rank(stage.mesh));
  }
  return time;
}

/// Where values stay whole over a step, the first forward gathers the updated ones; this is the
/// part that a full microbatch does not hide.
Nanoseconds gather_after_step(const PlacedStage& stage, const StageRules& rules) {
  Nanoseconds time;
  if (!rules.gathers_once()) return time;
  const PassShape pass = on_one_rank(rules.full_microbatch, stage.mesh);
  for (const PlacedRun& run : stage.runs) {
    if (!run.trains) continue;
    const Nanoseconds gather = gather_time(trained_values_of(run, stage.mesh, rules), stage, rules);
    if (gather.count == 0) continue;
    const Nanoseconds forward =
        run.is_backbone ? cost_of_layer(run, stage, pass, true, rules).forward : Nanoseconds{};
    time += exposed(gather, forward, rules) * run.layers;
  }
  return time;
}

}  // namespace

StageState state_of(const PlacedStage& stage, const StageRules& rules) {
  const std::vector<Unit> units = units_of(stage, rules);
  StageState state;
  add_bytes(state, units, stage, rules);
  state.reduction = reduction_of(units, stage, rules) + pair_time(stage, rules);
  double trained = 0;
  for (const Unit& unit : units) trained += unit.trained.of_rank(stage.mesh);
  state.optimizer_step = rules.source->optimizer(trained) + gather_after_step(stage, rules);
  state.host_step = rules.source->step(rules.plan_ranks);
  state.process = rules.source->process();
  return state;
}

}  // namespace tributary::cost
