#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "cost/layer_cost.h"
#include "cost/measured_attention.h"

namespace tributary::cost {
namespace {

using config::ProfilePoint;

/// Reads one column of a table as a function of tokens: never decreasing, from `floor` at 0.
template <class Field>
double interpolate(const std::vector<ProfilePoint>& points, Field field, double tokens,
                   double floor) {
  double before_tokens = 0;
  double before = floor;
  double highest = 0;
  for (const ProfilePoint& point : points) {
    const auto at = static_cast<double>(point.tokens.count);
    highest = std::max(highest, static_cast<double>(field(point)));
    if (tokens <= at) {
      const double low = std::min(before, highest);
      return low + (highest - low) * (tokens - before_tokens) / (at - before_tokens);
    }
    before_tokens = at;
    before = highest;
  }
  return highest * tokens / before_tokens;  // at the throughput of the last point
}

}  // namespace

LayerCost layer_cost(const config::ProfileTable& table, Nanoseconds launch, const PassShape& pass,
                     std::int64_t optimizer_shards, Training training) {
  TRIB_REQUIRE(!table.points.empty(), .what = "cost: measured table holds no points",
               .where = str(table.module, ".", table.layer));
  TRIB_REQUIRE(std::isfinite(pass.tokens) && pass.tokens >= 0 && optimizer_shards >= 1,
               .what = "cost: pass of an impossible size", .found = str(pass.tokens, " tokens"));
  LayerCost cost;
  cost.parameters = table.parameters;
  cost.adapter_parameters = table.adapters;
  if (training.trains) {
    const bool is_float = table.dtype == config::Dtype::kFloat32;
    const Bytes trained = cost.trained_parameters();
    cost.gradients = trained * (is_float ? 1 : 2);
    const std::int64_t state = is_float ? 2 * trained.count : 6 * trained.count;
    cost.optimizer = {(state + optimizer_shards - 1) / optimizer_shards};
  }
  if (pass.tokens == 0) return cost;
  const AttentionTime attention = attention_time(table.attention, pass);
  const auto time = [&](auto field) -> Nanoseconds {
    const bool none = std::all_of(table.points.begin(), table.points.end(),
                                  [&](const ProfilePoint& point) { return field(point) == 0; });
    if (none) return {0};
    const double ns =
        interpolate(table.points, field, pass.tokens, static_cast<double>(launch.count));
    return {std::max<std::int64_t>(1, std::llround(ns))};
  };
  const auto bytes = [&](auto field) -> Bytes {
    return {std::llround(interpolate(table.points, field, pass.tokens, 0))};
  };
  cost.attention_forward = {std::llround(attention.forward)};
  cost.forward = cost.attention_forward;
  cost.forward += time([](const ProfilePoint& point) { return point.forward.count; });
  // Selective recompute keeps what attention gave.
  cost.recompute_selective = time([](const ProfilePoint& point) { return point.recompute.count; });
  cost.recompute = cost.recompute_selective + cost.attention_forward;
  cost.recompute_attention = cost.recompute;  // halves of a layer are not measured apart
  // Layers with adapters were measured as they lie: the first of them too passes gradients on
  // inside.
  if (training.needs_input_grad || (training.trains && table.adapters.count > 0))
    cost.input_gradient =
        time([](const ProfilePoint& point) { return point.input_gradient.count; });
  if (training.trains || training.needs_input_grad) {
    cost.attention_gradient = {std::llround(attention.gradient)};
    cost.input_gradient += cost.attention_gradient;
  }
  if (training.trains)
    cost.weight_gradient =
        time([](const ProfilePoint& point) { return point.weight_gradient.count; });
  if (training.trains || training.needs_input_grad) {
    cost.activation = bytes([](const ProfilePoint& point) { return point.activation.count; });
    cost.activation_selective = cost.activation_attention = cost.activation;
    cost.activation_recomputed =
        bytes([](const ProfilePoint& point) { return point.activation_recomputed.count; });
  }
  cost.outside_grid =
      attention.outside_grid || pass.tokens > static_cast<double>(table.points.back().tokens.count);
  return cost;
}

}  // namespace tributary::cost
