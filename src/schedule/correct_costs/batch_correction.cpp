#include "schedule/correct_costs/batch_correction.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <ranges>

#include "core/error.h"

namespace tributary::schedule {
namespace {

double find_scale(const std::vector<MeasuredBucket>& buckets) {
  double measured = 0;
  double predicted = 0;
  for (const MeasuredBucket& bucket : buckets) {
    measured += static_cast<double>(bucket.time.count);
    for (const PredictedShare& share : bucket.shares)
      predicted += static_cast<double>(share.time.count);
  }
  return predicted == 0 ? 0 : measured / predicted;
}

Json json_of(const CostKey& key) { return {key.module, key.tp, key.size, key.longest}; }

CostKey key_of(const Json& json) {
  return {.module = json.at(0), .tp = json.at(1), .size = json.at(2), .longest = json.at(3)};
}

RatioEquations equations_of(const Json& json, const std::string& where) {
  RatioEquations::Products products;
  for (const Json& each : json.at("products"))
    products[{key_of(each.at(0)), key_of(each.at(1))}] = each.at(2);
  std::map<CostKey, double> measured;
  for (const Json& each : json.at("measured")) measured[key_of(each.at(0))] = each.at(1);
  for (const auto& [keys, product] : products)
    TRIB_REQUIRE(keys.first <= keys.second && measured.contains(keys.first) &&
                     measured.contains(keys.second),
                 .what = "schedule: cost correction has shares of a size that was not measured",
                 .where = where, .found = str("sizes ", keys.first.size, " and ", keys.second.size),
                 .exit = ExitCode::kCheckpointRefused);
  return RatioEquations::from(std::move(products), std::move(measured));
}

}  // namespace

BatchCorrection::BatchCorrection(std::int64_t lag, const CorrectionOptions& options,
                                 std::span<const std::int32_t> apart)
    : lag_(lag), options_(options), newest_(std::make_unique<CostCorrector>(options)) {
  for (const std::int32_t chain : apart) scales_.encoders.emplace(chain, 0);
}

PredictedBatch BatchCorrection::predict(std::span<const SampleLoad> loads) {
  PredictedBatch batch{.shares = {}, .plan = {}};
  if (!loads.empty()) batch.chains = loads.front().chains.size();
  for (const SampleLoad& load : loads)
    for (std::size_t chain = 0; chain < batch.chains; ++chain) {
      const ChainLoad& own = load.chains.at(chain);
      batch.shares.push_back(share_of(static_cast<std::int32_t>(chain), own.rows, own.time));
    }
  return batch;
}

std::shared_ptr<const KnownCosts> BatchCorrection::known_for(std::int64_t first_index) const {
  const std::scoped_lock lock(mutex_);
  const auto later = known_.upper_bound(first_index - lag_);
  return later == known_.begin() ? nullptr : std::prev(later)->second;
}

std::shared_ptr<const KnownCosts> BatchCorrection::known_now() const {
  return scales_.backbone == 0 ? nullptr : std::make_shared<const KnownCosts>(scales_, *newest_);
}

void BatchCorrection::end_step(std::int64_t first_index, const PredictedBatch& batch,
                               std::span<const MeasuredPart> parts) {
  learn(batch, parts);
  const std::scoped_lock lock(mutex_);
  known_.insert_or_assign(first_index, known_now());
  const auto needed = known_.upper_bound(first_index - lag_);  // by the batches still to come
  if (needed != known_.begin()) known_.erase(known_.begin(), std::prev(needed));
}

std::vector<MeasuredBucket> BatchCorrection::measure(const PredictedBatch& batch,
                                                     std::span<const MeasuredPart> parts) {
  std::vector<MeasuredBucket> buckets;
  const auto add = [&](std::int32_t encoder, double& scale) {
    if (scale == 0) scale = find_scale(list_buckets(batch, parts, encoder, 1));
    if (scale > 0)
      std::ranges::move(list_buckets(batch, parts, encoder, scale), std::back_inserter(buckets));
  };
  add(/*encoder=*/-1, scales_.backbone);
  for (std::size_t i = 0; i < batch.encoders.size(); ++i)
    add(static_cast<std::int32_t>(i), scales_.encoders.at(batch.encoders[i].chain));
  return buckets;
}

void BatchCorrection::learn(const PredictedBatch& batch, std::span<const MeasuredPart> parts) {
  double step = 0;
  for (const MeasuredPart& part : parts) step = std::max(step, part.step);
  std::vector<MeasuredBucket> buckets;
  if (newest_->is_measuring()) buckets = measure(batch, parts);
  const CostScales one{.backbone = 1};
  const CostScales& scales = scales_.backbone > 0 ? scales_ : one;
  const auto at_least_one = [](Nanoseconds time) {
    return Nanoseconds{std::max<std::int64_t>(1, time.count)};
  };
  const Nanoseconds used = judge_step(*newest_, batch, Arrangement::kUsed, scales);
  newest_->end_step(
      {.time = from_seconds(step),
       .predicted = at_least_one(used),
       .table = at_least_one(judge_step(CostCorrector(), batch, Arrangement::kWithout, one)),
       .buckets = buckets,
       .value_without = judge_step(*newest_, batch, Arrangement::kWithout, scales),
       .value_used = used});
}

Json BatchCorrection::save() const {
  const CorrectionState& state = newest_->state();
  Json ratios = Json::array();
  for (const auto& [key, learned] : state.ratios)
    ratios.push_back({json_of(key), learned.ratio, learned.buckets});
  Json products = Json::array();
  for (const auto& [keys, product] : state.equations.products())
    products.push_back({json_of(keys.first), json_of(keys.second), product});
  Json measured = Json::array();
  for (const auto& [key, sum] : state.equations.measured()) measured.push_back({json_of(key), sum});
  Json encoder_scales = Json::array();
  for (const auto& [chain, scale] : scales_.encoders) encoder_scales.push_back({chain, scale});
  return {{"scale", scales_.backbone},
          {"encoder_scales", encoder_scales},
          {"ratios", ratios},
          {"products", products},
          {"measured", measured},
          {"phase", static_cast<int>(state.phase)},
          {"steps", state.steps},
          {"slowness_off", state.slowness_off},
          {"slowness_on", state.slowness_on},
          {"cost", state.cost},
          {"benefit", state.benefit},
          {"residual", state.residual},
          {"usual_residual", state.usual_residual},
          {"steps_outside", state.steps_outside}};
}

void BatchCorrection::restore(const Json& json, const std::string& where) {
  CorrectionState state;
  CostScales scales;
  try {
    for (const Json& scale : json.value("encoder_scales", Json::array()))
      scales.encoders[scale.at(0).get<std::int32_t>()] = scale.at(1).get<double>();
    if (!std::ranges::equal(std::views::keys(scales.encoders), std::views::keys(scales_.encoders)))
      return;
    for (const Json& ratio : json.at("ratios"))
      state.ratios[key_of(ratio.at(0))] = {.ratio = ratio.at(1), .buckets = ratio.at(2)};
    state.equations = equations_of(json, where);
    const int phase = json.at("phase");
    TRIB_REQUIRE(phase >= 0 && phase <= static_cast<int>(CorrectionPhase::kOff),
                 .what = "schedule: phase of the cost correction is none", .where = where,
                 .found = str(phase), .exit = ExitCode::kCheckpointRefused);
    state.phase = static_cast<CorrectionPhase>(phase);
    scales.backbone = json.at("scale");
    state.steps = json.at("steps");
    state.slowness_off = json.at("slowness_off");
    state.slowness_on = json.at("slowness_on");
    state.cost = json.at("cost");
    state.benefit = json.at("benefit");
    state.residual = json.at("residual");
    state.usual_residual = json.at("usual_residual");
    state.steps_outside = json.at("steps_outside");
  } catch (const Json::exception& error) {
    TRIB_RAISE(Fault::kInput, .what = "schedule: cost correction cannot be read", .where = where,
               .found = escaped(error.what()), .exit = ExitCode::kCheckpointRefused);
  }
  scales_ = std::move(scales);
  newest_ = std::make_unique<CostCorrector>(options_, std::move(state));
  const std::scoped_lock lock(mutex_);
  known_.clear();
  known_.emplace(std::numeric_limits<std::int64_t>::min(), known_now());
}

}  // namespace tributary::schedule
