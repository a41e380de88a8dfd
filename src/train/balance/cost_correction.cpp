#include "train/balance/cost_correction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tributary::train {
namespace {

using schedule::CorrectionState;
using schedule::CostKey;
using schedule::MeasuredBucket;
using schedule::PredictedShare;

constexpr std::int32_t kVision = 0;
constexpr std::int32_t kBackbone = 1;
constexpr std::size_t kModules = 2;

Nanoseconds scaled(Nanoseconds time, double scale) {
  return {std::llround(static_cast<double>(time.count) * scale)};
}

Nanoseconds from_seconds(double seconds) {
  return {std::max<std::int64_t>(1, std::llround(seconds * 1e9))};
}

/// The predicted shares of one microbatch, those of one key together.
MeasuredBucket bucket_of(const PredictedBatch& batch, std::span<const std::int32_t> places,
                         double scale, double seconds) {
  std::map<CostKey, Nanoseconds> by_key;
  for (const std::int32_t place : places)
    for (std::size_t module = 0; module < kModules; ++module) {
      const PredictedShare& share =
          batch.shares[static_cast<std::size_t>(place) * kModules + module];
      if (share.time.count > 0) by_key[share.key] += scaled(share.time, scale);
    }
  MeasuredBucket bucket{.shares = {}, .time = from_seconds(seconds)};
  for (const auto& [key, time] : by_key) bucket.shares.push_back({key, time});
  return bucket;
}

/// Microbatches of all replicas as planned, each with its seconds over all stages.
std::vector<MeasuredBucket> list_buckets(const PredictedBatch& batch,
                                         const std::vector<Json>& parts, double scale) {
  const std::vector<schedule::PackedBins>& replicas = batch.plan.microbatches;
  std::vector<std::vector<double>> seconds;
  for (const schedule::PackedBins& bins : replicas) seconds.emplace_back(bins.bins());
  std::vector<bool> is_known(replicas.size());
  for (const Json& part : parts) {
    if (part.is_null()) continue;  // not the first rank of a stage
    const auto replica = part.at("replica").get<std::size_t>();
    const auto own = part.at("microbatches").get<std::vector<double>>();
    is_known.at(replica) =
        part.at("as_planned").get<bool>() && own.size() >= seconds[replica].size();
    for (std::size_t bin = 0; bin < std::min(own.size(), seconds[replica].size()); ++bin)
      seconds[replica][bin] += own[bin];
  }
  std::vector<MeasuredBucket> buckets;
  for (std::size_t replica = 0; replica < replicas.size(); ++replica)
    for (std::int64_t bin = 0; is_known[replica] && bin < replicas[replica].bins(); ++bin)
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

/// The slowest replica by measured ratios: its modules run one after the other.
Nanoseconds judge(const schedule::CostCorrector& corrector, const PredictedBatch& batch,
                  std::span<const std::int32_t> replica_of, double scale) {
  std::vector<PredictedShare> items = batch.shares;
  std::vector<std::int32_t> bucket_of_item;
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].time = scaled(items[i].time, scale);
    bucket_of_item.push_back(replica_of[i / kModules]);
  }
  return schedule::judge_arrangement(corrector, items, /*dimensions=*/1, bucket_of_item,
                                     std::ssize(batch.plan.microbatches));
}

}  // namespace

CostCorrection::CostCorrection(std::int64_t lag, const schedule::CorrectionOptions& options)
    : lag_(lag), options_(options), newest_(std::make_unique<Corrector>(options)) {}

std::vector<PredictedShare> CostCorrection::shares_of(const SampleShape& shape,
                                                      const schedule::SampleLoad& predicted) {
  std::int64_t patches = 0;
  for (const Grid& grid : shape.images) patches += grid.patches();
  for (const Grid& grid : shape.videos) patches += grid.patches();
  return {{{.module = kVision, .size = schedule::quarter_octave(patches)}, predicted.vision},
          {{.module = kBackbone, .size = schedule::quarter_octave(shape.tokens.count)},
           predicted.backbone}};
}

std::vector<schedule::SampleLoad> CostCorrection::correct(
    std::int64_t first_index, std::span<const schedule::SampleLoad> predicted,
    std::span<const PredictedShare> shares) const {
  std::vector<schedule::SampleLoad> loads(predicted.begin(), predicted.end());
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
  for (std::size_t i = 0; i < loads.size(); ++i) {
    loads[i].vision = corrected(shares[i * kModules]);
    loads[i].backbone = corrected(shares[i * kModules + 1]);
  }
  return loads;
}

void CostCorrection::end_step(std::int64_t first_index, const PredictedBatch& batch,
                              const MeasuredPart& own, const mesh::Mesh& mesh) {
  Json part = nullptr;
  if (mesh.leads_stage())
    part = {{"replica", mesh.data_index()},
            {"microbatches", own.microbatches},
            {"as_planned", own.as_planned},
            {"step", own.step}};
  learn(batch, mesh.world().gather_text(part.dump()));
  const std::scoped_lock lock(mutex_);
  known_.insert_or_assign(first_index, std::make_shared<const Known>(Known{scale_, *newest_}));
  const auto needed = known_.upper_bound(first_index - lag_);  // by the batches still to come
  if (needed != known_.begin()) known_.erase(known_.begin(), std::prev(needed));
}

void CostCorrection::learn(const PredictedBatch& batch, const std::vector<std::string>& texts) {
  std::vector<Json> parts;
  double step = 0;
  for (const std::string& text : texts) {
    parts.push_back(parse_json(text, "times of a rank"));
    if (!parts.back().is_null()) step = std::max(step, parts.back().at("step").get<double>());
  }
  std::vector<MeasuredBucket> buckets;
  if (newest_->is_measuring()) {
    if (scale_ == 0) scale_ = find_scale(list_buckets(batch, parts, 1));
    if (scale_ > 0) buckets = list_buckets(batch, parts, scale_);
  }
  const double scale = scale_ > 0 ? scale_ : 1;
  const Nanoseconds used = judge(*newest_, batch, batch.plan.replica_of, scale);
  newest_->end_step({.time = from_seconds(step),
                     .predicted = {std::max<std::int64_t>(1, used.count)},
                     .buckets = buckets,
                     .value_without = judge(*newest_, batch, batch.replica_without, scale),
                     .value_used = used});
}

Json CostCorrection::save() const {
  const CorrectionState& state = newest_->state();
  Json ratios = Json::array();
  for (const auto& [key, learned] : state.ratios)
    ratios.push_back({key.module, key.tp, key.size, key.longest, learned.ratio, learned.buckets});
  return {{"scale", scale_},
          {"ratios", ratios},
          {"phase", static_cast<int>(state.phase)},
          {"steps", state.steps},
          {"seconds_off", state.seconds_off},
          {"seconds_on", state.seconds_on},
          {"cost", state.cost},
          {"benefit", state.benefit},
          {"residual", state.residual},
          {"usual_residual", state.usual_residual},
          {"steps_outside", state.steps_outside}};
}

void CostCorrection::restore(const Json& json, const std::string& where) {
  CorrectionState state;
  try {
    for (const Json& ratio : json.at("ratios"))
      state.ratios[{
          .module = ratio.at(0), .tp = ratio.at(1), .size = ratio.at(2), .longest = ratio.at(3)}] =
          {.ratio = ratio.at(4), .buckets = ratio.at(5)};
    const int phase = json.at("phase");
    TRIB_REQUIRE(phase >= 0 && phase <= static_cast<int>(schedule::CorrectionPhase::kOff),
                 .what = "train: phase of the cost correction is none", .where = where,
                 .found = str(phase), .exit = ExitCode::kCheckpointRefused);
    state.phase = static_cast<schedule::CorrectionPhase>(phase);
    scale_ = json.at("scale");
    state.steps = json.at("steps");
    state.seconds_off = json.at("seconds_off");
    state.seconds_on = json.at("seconds_on");
    state.cost = json.at("cost");
    state.benefit = json.at("benefit");
    state.residual = json.at("residual");
    state.usual_residual = json.at("usual_residual");
    state.steps_outside = json.at("steps_outside");
  } catch (const Json::exception& error) {
    TRIB_RAISE(Fault::kInput, .what = "train: cost correction cannot be read", .where = where,
               .found = escaped(error.what()), .exit = ExitCode::kCheckpointRefused);
  }
  newest_ = std::make_unique<Corrector>(options_, std::move(state));
  const std::scoped_lock lock(mutex_);
  known_.clear();
  known_.emplace(std::numeric_limits<std::int64_t>::min(),
                 std::make_shared<const Known>(Known{scale_, *newest_}));
}

}  // namespace tributary::train
