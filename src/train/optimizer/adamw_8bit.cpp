#include "train/optimizer/adamw_8bit.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ATen.h>

#include "config/run/optimizer_state.h"
#include "train/checkpoint/unit_parts.h"
#include "train/optimizer/parameter_groups.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kBlock = config::kQuantisedBlock;

/// The dynamic tree of the paper: in each power of ten below 1 equally spaced shares, twice as many
/// as in the power below. Unsigned numbers have one bit more for them.
std::vector<float> make_table(bool is_signed) {
  constexpr int kPowers = 7;
  std::vector<float> positive{1};
  for (int power = 0; power < kPowers; ++power) {
    const int shares = (is_signed ? 1 : 2) << power;
    const double scale = std::pow(10, power - kPowers + 1);
    for (int i = 0; i < shares; ++i)
      positive.push_back(static_cast<float>(scale * (0.1 + 0.9 * (i + 0.5) / shares)));
  }
  std::ranges::sort(positive);
  std::vector<float> table = positive;
  table.push_back(0);
  if (is_signed)  // without the smallest: 256 in all
    for (std::size_t i = 1; i < positive.size(); ++i) table.push_back(-positive[i]);
  std::ranges::sort(table);
  return table;
}

}  // namespace

bool is_quantised(const parallel::Parameter& parameter) {
  return parameter.shape.size() > 1 && parameter.elements() >= config::kFewestQuantised;
}

BlockQuantised::BlockQuantised(std::int64_t elements, bool is_signed, at::Device device)
    : elements_(elements), table_(at::tensor(make_table(is_signed)).to(device)) {
  const std::int64_t blocks = (elements + kBlock - 1) / kBlock;
  const std::int64_t last = table_.numel() - 1;
  borders_ = (table_.narrow(0, 0, last) + table_.narrow(0, 1, last)) / 2;
  // A second moment that became 0 beside a first one that did not would make a huge step.
  if (!is_signed) borders_[0].zero_();
  largest_ = at::zeros({blocks, 1}, table_.options());
  codes_ = at::zeros({blocks, kBlock}, table_.options().dtype(at::kByte));
}

at::Tensor BlockQuantised::read() const {
  const at::Tensor shares = table_.index_select(0, codes_.flatten().to(at::kInt));
  return (shares.view(codes_.sizes()) * largest_).flatten().narrow(0, 0, elements_);
}

void BlockQuantised::write(const at::Tensor& values) {
  const at::Tensor blocks =
      at::constant_pad_nd(values, {0, codes_.numel() - elements_}).view(codes_.sizes());
  largest_ = blocks.abs().amax(1, /*keepdim=*/true);
  const at::Tensor shares = blocks / largest_.clamp_min(1e-30);
  codes_ = at::bucketize(shares, borders_, /*out_int32=*/true).to(at::kByte);
}

AdamW8bit::AdamW8bit(const MasterShards& masters, const config::OptimizerSection& settings,
                     const Takes& takes)
    : beta1_(settings.beta1),
      beta2_(settings.beta2),
      epsilon_(settings.epsilon),
      step_count_(masters.step_count()) {
  for (const MasterShard& shard : masters.shards()) {
    for (const auto& parameter : shard.unit->parameters()) {
      if (!takes(*parameter)) continue;
      const ParameterRule rule = find_rule(settings, shard.unit->module(), *parameter);
      const parallel::Range own = shard.unit->range_of(*parameter);
      const at::Device device = shard.value.device();
      moments_.push_back({.unit = shard.unit,
                          .parameter = parameter.get(),
                          .own = own,
                          .learning_rate_scale = rule.learning_rate_scale,
                          .weight_decay = rule.weight_decay,
                          .value = shard.value.narrow(0, own.first, own.count),
                          .gradient = shard.gradient.narrow(0, own.first, own.count),
                          .exp_avg = {own.count, /*is_signed=*/true, device},
                          .exp_avg_sq = {own.count, /*is_signed=*/false, device}});
    }
  }
}

void AdamW8bit::update(double learning_rate, double gradient_factor, const parallel::Unit* only) {
  std::optional<at::Tensor> divisor;
  if (gradient_factor != 1.0) divisor = at::full({}, 1.0 / gradient_factor, step_count_.options());
  for (Moments& each : moments_) {
    if (only != nullptr && only != each.unit) continue;
    each.shown_avg = each.shown_avg_sq = at::Tensor();
    if (each.own.count == 0) continue;
    const at::Tensor exp_avg = each.exp_avg.read();
    const at::Tensor exp_avg_sq = each.exp_avg_sq.read();
    at::_fused_adamw_({each.value}, {each.gradient}, {exp_avg}, {exp_avg_sq},
                      /*max_exp_avg_sqs=*/{}, {step_count_},
                      learning_rate * each.learning_rate_scale, beta1_, beta2_, each.weight_decay,
                      epsilon_, /*amsgrad=*/false, /*maximize=*/false, divisor);
    each.exp_avg.write(exp_avg);
    each.exp_avg_sq.write(exp_avg_sq);
  }
}

void AdamW8bit::append_state(const parallel::Unit& unit, const parallel::Parameter& parameter,
                             std::vector<NamedTensor>& state) const {
  const auto found = std::ranges::find(moments_, &parameter, &Moments::parameter);
  if (found == moments_.end()) return;
  if (!found->shown_avg.defined()) {
    found->shown_avg = found->exp_avg.read();
    found->shown_avg_sq = found->exp_avg_sq.read();
  }
  append_parts(unit, parameter, found->shown_avg, "exp_avg.", state, found->own.first);
  append_parts(unit, parameter, found->shown_avg_sq, "exp_avg_sq.", state, found->own.first);
}

void AdamW8bit::restore() {
  for (Moments& each : moments_) {
    if (!each.shown_avg.defined() || each.own.count == 0) continue;
    each.exp_avg.write(each.shown_avg);
    each.exp_avg_sq.write(each.shown_avg_sq);
    each.shown_avg = each.shown_avg_sq = at::Tensor();
  }
}

}  // namespace tributary::train
