#include "schedule/correct_costs/batch_correction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tributary::schedule {
namespace {

Nanoseconds scaled(Nanoseconds time, double scale) {
  return {std::llround(static_cast<double>(time.count) * scale)};
}

Nanoseconds from_seconds(double seconds) {
  return {std::max<std::int64_t>(1, std::llround(seconds * 1e9))};
}

/// The predicted shares of one microbatch, added up by key.
MeasuredBucket bucket_of(const PredictedBatch& batch, std::span<const std::int32_t> places,
                         double scale, double seconds) {
  std::map<CostKey, Nanoseconds> by_key;
  for (const std::int32_t place : places)
    for (std::size_t chain = 0; chain < batch.chains; ++chain) {
      const PredictedShare& share =
          batch.shares[static_cast<std::size_t>(place) * batch.chains + chain];
      if (share.time.count > 0) by_key[share.key] += scaled(share.time, scale);
    }
  MeasuredBucket bucket{.shares = {}, .time = from_seconds(seconds)};
  for (const auto& [key, time] : by_key) bucket.shares.push_back({key, time});
  return bucket;
}

/// The microbatches of all replicas as planned, each with its seconds over all stages.
std::vector<MeasuredBucket> list_buckets(const PredictedBatch& batch,
                                         std::span<const MeasuredPart> parts, double scale) {
  const std::vector<PackedBins>& replicas = batch.plan.microbatches;
  std::vector<std::vector<double>> seconds;
  for (const PackedBins& bins : replicas) seconds.emplace_back(bins.bins());
  std::vector<bool> is_known(replicas.size());
  std::vector<bool> is_other(replicas.size());
  for (const MeasuredPart& part : parts) {
    std::vector<double>& sums = seconds.at(static_cast<std::size_t>(part.replica));
    is_known[part.replica] = true;
    if (!part.as_planned || part.microbatches.size() < sums.size()) is_other[part.replica] = true;
    for (std::size_t bin = 0; bin < std::min(part.microbatches.size(), sums.size()); ++bin)
      sums[bin] += part.microbatches[bin];
  }
  std::vector<MeasuredBucket> buckets;
  for (std::size_t replica = 0; replica < replicas.size(); ++replica)
    for (std::int64_t bin = 0;
         is_known[replica] && !is_other[replica] && bin < replicas[replica].bins(); ++bin)
      buckets.push_back(bucket_of(batch, replicas[replica].bin(bin), scale, seconds[replica][bin]));
  return buckets;
}

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

/// The slowest replica by measured ratios; its modules run one after the other.
Nanoseconds judge(const CostCorrector& corrector, const PredictedBatch& batch,
                  std::span<const std::int32_t> replica_of, double scale) {
  std::vector<PredictedShare> items = batch.shares;
  std::vector<std::int32_t> bucket_of_item;
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].time = scaled(items[i].time, scale);
    bucket_of_item.push_back(replica_of[i / batch.chains]);
  }
  return judge_arrangement(corrector, items, /*dimensions=*/1, bucket_of_item,
                           std::ssize(batch.plan.microbatches));
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

BatchCorrection::BatchCorrection(std::int64_t lag, const CorrectionOptions& options)
    : lag_(lag), options_(options), newest_(std::make_unique<CostCorrector>(options)) {}

PredictedBatch BatchCorrection::predict(std::span<const SampleLoad> loads) {
  PredictedBatch batch{.shares = {}, .plan = {}};
  if (!loads.empty()) batch.chains = loads.front().chains.size();
  for (const SampleLoad& load : loads)
    for (std::size_t chain = 0; chain < batch.chains; ++chain)
      batch.shares.push_back({{.module = static_cast<std::int32_t>(chain),
                               .size = quarter_octave(load.chains.at(chain).rows)},
                              load.chains.at(chain).time});
  return batch;
}

std::vector<SampleLoad> BatchCorrection::correct(std::int64_t first_index,
                                                 std::span<const SampleLoad> predicted,
                                                 const PredictedBatch& batch) const {
  std::vector<SampleLoad> loads(predicted.begin(), predicted.end());
  std::shared_ptr<const Known> known;
  {
    const std::scoped_lock lock(mutex_);
    const auto later = known_.upper_bound(first_index - lag_);
    if (later != known_.begin()) known = std::prev(later)->second;
  }
  if (!known || known->scale == 0) return loads;
  const auto corrected = [&](const PredictedShare& share) {
    return known->corrector.correct(share.key, scaled(share.time, known->scale));
  };
  for (std::size_t i = 0; i < loads.size(); ++i)
    for (std::size_t chain = 0; chain < batch.chains; ++chain)
      loads[i].chains[chain].time = corrected(batch.shares[i * batch.chains + chain]);
  return loads;
}

void BatchCorrection::end_step(std::int64_t first_index, const PredictedBatch& batch,
                               std::span<const MeasuredPart> parts) {
  learn(batch, parts);
  const std::scoped_lock lock(mutex_);
  known_.insert_or_assign(first_index, std::make_shared<const Known>(Known{scale_, *newest_}));
  const auto needed = known_.upper_bound(first_index - lag_);  // by the batches still to come
  if (needed != known_.begin()) known_.erase(known_.begin(), std::prev(needed));
}

void BatchCorrection::learn(const PredictedBatch& batch, std::span<const MeasuredPart> parts) {
  double step = 0;
  for (const MeasuredPart& part : parts) step = std::max(step, part.step);
  std::vector<MeasuredBucket> buckets;
  if (newest_->is_measuring()) {
    if (scale_ == 0) scale_ = find_scale(list_buckets(batch, parts, 1));
    if (scale_ > 0) buckets = list_buckets(batch, parts, scale_);
  }
  const double scale = scale_ > 0 ? scale_ : 1;
  const auto at_least_one = [](Nanoseconds time) {
    return Nanoseconds{std::max<std::int64_t>(1, time.count)};
  };
  const Nanoseconds used = judge(*newest_, batch, batch.plan.replica_of, scale);
  newest_->end_step({.time = from_seconds(step),
                     .predicted = at_least_one(used),
                     .table = at_least_one(judge(CostCorrector(), batch, batch.replica_without, 1)),
                     .buckets = buckets,
                     .value_without = judge(*newest_, batch, batch.replica_without, scale),
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
  return {{"scale", scale_},
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
  try {
    for (const Json& ratio : json.at("ratios"))
      state.ratios[key_of(ratio.at(0))] = {.ratio = ratio.at(1), .buckets = ratio.at(2)};
    state.equations = equations_of(json, where);
    const int phase = json.at("phase");
    TRIB_REQUIRE(phase >= 0 && phase <= static_cast<int>(CorrectionPhase::kOff),
                 .what = "schedule: phase of the cost correction is none", .where = where,
                 .found = str(phase), .exit = ExitCode::kCheckpointRefused);
    state.phase = static_cast<CorrectionPhase>(phase);
    scale_ = json.at("scale");
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
  newest_ = std::make_unique<CostCorrector>(options_, std::move(state));
  const std::scoped_lock lock(mutex_);
  known_.clear();
  known_.emplace(std::numeric_limits<std::int64_t>::min(),
                 std::make_shared<const Known>(Known{scale_, *newest_}));
}

}  // namespace tributary::schedule
